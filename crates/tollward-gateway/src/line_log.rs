//! Lines of JSON, written beside the work and never in its way.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use serde::Serialize;
use tokio::sync::oneshot;
use tollward_policy::AccessLog as Destination;

/// How much is written at once, in bytes, give or take a line.
const CHUNK: usize = 64 * 1024;

/// Takes lines down, in a thread of its own. Cheap to clone.
///
/// Only whole lines are written: one that a full disk cut off is ended before another is begun. A file that
/// was moved away is begun anew.
#[derive(Debug)]
pub struct LineLog<L> {
    lines: SyncSender<L>,
    lost: Arc<AtomicU64>,
}

/// The end of a log.
#[derive(Debug)]
pub struct Written(oneshot::Receiver<()>);

impl Written {
    /// Waits until the last line is written, which is as long as whoever takes them lets it take.
    pub async fn wait(self) {
        // Nothing is ever sent: the other end goes when the log has ended.
        let _ = self.0.await;
    }
}

impl<L> Clone for LineLog<L> {
    fn clone(&self) -> Self {
        Self {
            lines: self.lines.clone(),
            lost: self.lost.clone(),
        }
    }
}

impl<L: Serialize + Send + 'static> LineLog<L> {
    /// Opens a log; none if it is off. It ends when the last clone is gone, and [`Written`] tells when
    /// its last line is written. `name` is its thread's; `max_waiting` lines may wait, and those beyond or
    /// that cannot be written are added to `lost`.
    ///
    /// # Errors
    ///
    /// The file cannot be opened.
    pub fn open(
        destination: &Destination,
        name: &str,
        max_waiting: usize,
        lost: Arc<AtomicU64>,
    ) -> io::Result<Option<(Self, Written)>> {
        let output = match destination {
            Destination::Off => return Ok(None),
            Destination::Stdout => Output::Stdout(io::stdout()),
            Destination::File(path) => Output::File(LogFile::open(path)?),
        };
        let (lines, waiting) = sync_channel(max_waiting);
        let counted = lost.clone();
        let (writing, written) = oneshot::channel::<()>();
        thread::Builder::new().name(name.into()).spawn(move || {
            write(output, &waiting, &counted);
            drop(writing);
        })?;
        Ok(Some((Self { lines, lost }, Written(written))))
    }

    /// Has a line written, or counts it as lost if too many wait already.
    pub fn write(&self, line: L) {
        if self.lines.try_send(line).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }
}

/// Writes lines until nobody sends any more; they are pushed out whenever none waits.
fn write<L: Serialize>(output: Output, lines: &Receiver<L>, lost: &AtomicU64) {
    let mut writer = Writer {
        output,
        text: Vec::new(),
        is_begun: false,
    };
    let lose = |lines| lost.fetch_add(lines, Relaxed);
    while let Ok(line) = lines.recv() {
        let waiting = std::iter::from_fn(|| lines.try_recv().ok());
        for line in std::iter::once(line).chain(waiting) {
            lose(writer.add(&line));
            if writer.text.len() >= CHUNK {
                lose(writer.push());
            }
        }
        lose(writer.push());
        lose(writer.follow());
    }
    lose(writer.abandon());
}

struct Writer {
    output: Output,
    /// Whole lines that are to be written, but for the first if that is begun.
    text: Vec<u8>,
    /// The first line is the rest of one of which the beginning is written.
    is_begun: bool,
}

/// Each says how many lines are lost.
impl Writer {
    fn add(&mut self, line: &impl Serialize) -> u64 {
        let end = self.text.len();
        if serde_json::to_writer(&mut self.text, line).is_err() {
            self.text.truncate(end);
            return 1;
        }
        self.text.push(b'\n');
        0
    }

    /// Writes what there is. A full disk costs lines: what was begun waits until it can be ended.
    fn push(&mut self) -> u64 {
        let written = self.output.write(&self.text);
        let (is_begun, lost) = keep_begun(&mut self.text, written, self.is_begun);
        self.is_begun = is_begun;
        lost
    }

    /// Goes on in a new file if the old one was moved away.
    fn follow(&mut self) -> u64 {
        match self.output.follow() {
            Ok(false) => 0,
            Ok(true) => self.abandon(),
            Err(_) => 1,
        }
    }

    /// Lets go of a line that was begun.
    fn abandon(&mut self) -> u64 {
        self.text.clear();
        std::mem::take(&mut self.is_begun).into()
    }
}

/// Leaves of a text of which so much is written nothing but the rest of a line that was begun, before or by
/// that. Says whether there is one, and how many lines are lost.
fn keep_begun(text: &mut Vec<u8>, written: usize, was_begun: bool) -> (bool, u64) {
    let (done, left) = text.split_at(written);
    let is_begun = match done.last() {
        Some(last) => *last != b'\n',
        None => was_begun,
    };
    let rest = match is_begun {
        true => memchr::memchr(b'\n', left).map_or(left.len(), |end| end + 1),
        false => 0,
    };
    let lost = memchr::memchr_iter(b'\n', &left[rest..]).count();
    text.truncate(written + rest);
    text.drain(..written);
    (is_begun, lost as u64)
}

enum Output {
    Stdout(io::Stdout),
    File(LogFile),
}

impl Output {
    /// Writes as much as can be, and says how much that is.
    fn write(&mut self, text: &[u8]) -> usize {
        let mut written = 0;
        while let Some(left) = text.get(written..).filter(|left| !left.is_empty()) {
            let result = match self {
                // Whole lines leave its buffer at once, or else wait there, in order.
                Self::Stdout(out) => out.write(left),
                Self::File(log) => log.file.write(left),
            };
            match result {
                Ok(0) => break,
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        written
    }

    fn follow(&mut self) -> io::Result<bool> {
        match self {
            Self::Stdout(_) => Ok(false),
            Self::File(log) => log.follow(),
        }
    }
}

/// A file that is opened anew when it was moved away.
struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }

    fn follow(&mut self) -> io::Result<bool> {
        let open = self.file.metadata()?;
        let there = fs::metadata(&self.path);
        let moved = !there.is_ok_and(|there| same(&open, &there));
        if moved {
            *self = Self::open(&self.path)?;
        }
        Ok(moved)
    }
}

#[cfg(unix)]
fn same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn same(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests;
