//! Buckets made full.

use futures_util::future::join_all;
use redis::{Pipeline, RedisError, Value};
use tollward_store::{Store, StoreError};

use super::{MAX_HOPS, Piece, Request, TRY_AGAIN_AFTER};
use crate::connect::Address;

impl Request<'_> {
    /// Deletes the buckets, and forgets what this node knows of them and what it owes them.
    pub(crate) async fn reset(&self) -> Result<(), StoreError> {
        // First, so that it is not charged to a bucket that was just emptied. (What is on its way to be
        // settled may still be.)
        for key in &self.keys {
            self.inner.local.forgive(key);
        }
        let pieces = self.pieces();
        let deleted = join_all(pieces.iter().map(|piece| self.delete(piece)));
        let deleted = tokio::time::timeout(self.inner.shared.deadline, deleted).await;
        self.inner
            .local
            .memory()
            .reset(self.charges, self.now)
            .wait()
            .await?;
        if let Some(remembered) = &self.inner.remembered {
            for charge in self.charges {
                remembered.forget(charge.key);
            }
        }
        match deleted {
            Ok(deleted) if deleted.iter().all(Option::is_some) => Ok(()),
            _ => Err(StoreError::Unavailable),
        }
    }

    /// Deletes the buckets of one slot, following it if it moves; none if that could not be done. It does
    /// no harm to do this twice, so what is not known to be done is not done.
    async fn delete(&self, piece: &Piece) -> Option<()> {
        let shards = &self.inner.shards;
        let mut lane = shards.lane(piece.slot)?;
        let mut asking = false;
        for _ in 0..=MAX_HOPS {
            let mut pipeline = Pipeline::new();
            if asking {
                pipeline.cmd("ASKING");
            }
            let delete = pipeline.cmd("DEL");
            for place in &piece.charges {
                delete.arg(self.keys[*place].as_bytes());
            }
            let replies = 1 + usize::from(asking);
            let mut connection = lane.connection()?;
            let sent = connection.send_packed_commands(&pipeline, 0, replies);
            let error: RedisError = match sent.await.ok()?.pop()? {
                Value::Int(_) => return Some(()),
                Value::ServerError(error) => error.into(),
                _ => return None,
            };
            let to = error.redirect_node().and_then(|(to, _)| Address::named(to));
            asking = error.code() == Some("ASK");
            lane = match (error.code()?, to) {
                ("MOVED", Some(to)) => {
                    shards.moved(piece.slot, &to);
                    self.inner.shared.map_is_stale.notify_one();
                    shards.at(&to)?
                }
                ("ASK", Some(to)) => shards.at(&to)?,
                ("TRYAGAIN", _) => {
                    tokio::time::sleep(TRY_AGAIN_AFTER).await;
                    shards.lane(piece.slot)?
                }
                _ => return None,
            };
        }
        None
    }
}
