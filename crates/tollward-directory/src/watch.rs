use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use sqlx::postgres::PgListener;
use tokio::sync::watch;
use tokio::time::{Sleep, sleep, timeout};
use tracing::debug;

use crate::directory::Directory;

/// Wakes the nodes that listen, when the edit is committed.
pub(crate) const NOTIFY: &str = "NOTIFY tollward_directory";
const CHANNEL: &str = "tollward_directory";

/// A change is seen by then even if nobody tells of it.
const POLL: Duration = Duration::from_millis(500);
/// A listener that cannot be made by then is given up.
const CONNECT: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Tells when to look for changes.
///
/// It needs no task of its own, and ends when it is dropped.
pub struct Watch {
    committed: watch::Receiver<i64>,
    ear: Ear,
    url: String,
    /// Before the next attempt to listen.
    pause: Duration,
}

/// What hears PostgreSQL.
enum Ear {
    /// Nobody speaks.
    None,
    Connecting(Pin<Box<dyn Future<Output = Result<PgListener, sqlx::Error>> + Send>>),
    Listening(Box<PgListener>),
    /// Before another attempt.
    Resting(Pin<Box<Sleep>>),
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Directory {
    /// Watches for edits, of this process and of others.
    pub fn watch(&self) -> Watch {
        let url = self.0.url.expose();
        Watch {
            committed: self.0.committed.subscribe(),
            ear: match self.is_shared() {
                true => Ear::Connecting(Box::pin(listen(url.clone()))),
                false => Ear::None,
            },
            url,
            pause: FIRST_PAUSE,
        }
    }
}

impl Watch {
    /// Waits until there may have been an edit: at once after one of this process, or one that
    /// PostgreSQL tells of, and in any case after half a second.
    ///
    /// Dropped and called again, it goes on where it was.
    pub async fn changed(&mut self) {
        let _ = timeout(POLL, self.told()).await;
        self.committed.mark_unchanged();
    }

    /// Waits until somebody tells of an edit.
    async fn told(&mut self) {
        loop {
            let Self {
                committed,
                ear,
                url,
                pause,
            } = self;
            let next = tokio::select! {
                biased;
                told = committed.changed() => match told {
                    Ok(()) => return,
                    // The directory is gone, and so is who could tell.
                    Err(_) => std::future::pending().await,
                },
                next = ear.next(url, pause) => next,
            };
            match next {
                Some(next) => *ear = next,
                None => return,
            }
        }
    }
}

impl Ear {
    /// What it becomes next; none if it has heard something.
    async fn next(&mut self, url: &str, pause: &mut Duration) -> Option<Self> {
        match self {
            Self::None => std::future::pending().await,
            Self::Connecting(connecting) => match connecting.await {
                Ok(listener) => {
                    *pause = FIRST_PAUSE;
                    Some(Self::Listening(Box::new(listener)))
                }
                Err(error) => Some(Self::rest(pause, &error)),
            },
            Self::Listening(listener) => match listener.try_recv().await {
                Ok(Some(_)) => {
                    // One look finds all there is.
                    while listener.next_buffered().is_some() {}
                    None
                }
                Ok(None) => Some(Self::Connecting(Box::pin(listen(url.to_owned())))),
                Err(error) => Some(Self::rest(pause, &error)),
            },
            Self::Resting(rest) => {
                rest.await;
                Some(Self::Connecting(Box::pin(listen(url.to_owned()))))
            }
        }
    }

    fn rest(pause: &mut Duration, why: &sqlx::Error) -> Self {
        debug!("does not hear of changes of the directory, and looks for them: {why}");
        let rest = Box::pin(sleep(*pause));
        *pause = (*pause * 2).min(LONGEST_PAUSE);
        Self::Resting(rest)
    }
}

async fn listen(url: String) -> Result<PgListener, sqlx::Error> {
    let connect = async {
        let mut listener = PgListener::connect(&url).await?;
        listener.eager_reconnect(false);
        listener.listen(CHANNEL).await?;
        Ok(listener)
    };
    timeout(CONNECT, connect)
        .await
        .unwrap_or(Err(sqlx::Error::PoolTimedOut))
}
