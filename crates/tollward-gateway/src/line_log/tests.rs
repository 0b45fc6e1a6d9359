use std::sync::mpsc::channel;

use serde_json::{Value, json};

use super::*;

const WAITING: usize = 8192;

/// A file of its own, gone with this.
struct Disk {
    path: PathBuf,
}

impl Disk {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let name = format!("tollward-lines-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        Self { path }
    }

    fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.path).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'), "{text}");
        let line = |line| serde_json::from_str(line).unwrap();
        text.lines().map(line).collect()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn end(written: Written) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(written.wait());
}

fn open(path: &Path) -> (LineLog<Value>, Written, Arc<AtomicU64>) {
    let lost = Arc::new(AtomicU64::new(0));
    let to = Destination::File(path.to_owned());
    let (log, written) = LineLog::open(&to, "lines", WAITING, lost.clone())
        .unwrap()
        .unwrap();
    (log, written, lost)
}

#[test]
fn what_is_off_has_no_log() {
    let log = LineLog::<Value>::open(&Destination::Off, "lines", WAITING, Arc::default());
    assert!(log.unwrap().is_none());
}

#[test]
fn all_lines_are_there_in_the_end() {
    let disk = Disk::new();
    let (log, written, lost) = open(&disk.path);
    let expected: Vec<Value> = (0..5000)
        .map(|it| json!({ "n": it, "t": "a\nb" }))
        .collect();
    for line in &expected {
        log.write(line.clone());
    }
    drop(log);
    end(written);
    assert_eq!((disk.lines(), lost.load(Relaxed)), (expected, 0));
}

/// Nobody waits, and every line is accounted for.
#[cfg(target_os = "linux")]
#[test]
fn on_a_full_disk_lines_are_lost_and_counted() {
    let (log, written, lost) = open(Path::new("/dev/full"));
    for number in 0..20_000 {
        log.write(number.into());
    }
    drop(log);
    end(written);
    assert_eq!(lost.load(Relaxed), 20_000);
}

/// Whoever takes the lines may stand still: what waits is bounded, and the rest is counted.
#[cfg(unix)]
#[test]
fn nobody_waits_for_whoever_does_not_read() {
    let disk = Disk::new();
    let made = std::process::Command::new("mkfifo")
        .arg(&disk.path)
        .status();
    assert!(made.unwrap().success());
    let (read, may_read) = channel::<()>();
    let reading = disk.path.clone();
    let reader = thread::spawn(move || {
        let file = File::open(reading).unwrap();
        let _ = may_read.recv();
        io::read_to_string(file).unwrap().lines().count()
    });
    let (log, written, lost) = open(&disk.path);
    for number in 0..50_000 {
        log.write(format!("{number:01000}").into());
    }
    drop(log);
    drop(read);
    end(written);
    let lost = usize::try_from(lost.load(Relaxed)).unwrap();
    assert!(lost >= 50_000 - WAITING - 1000, "{lost}");
    assert_eq!(reader.join().unwrap() + lost, 50_000);
}

/// A line that the disk has room for a part of is ended when there is more.
#[test]
fn a_line_that_was_begun_is_ended_before_another() {
    let disk = Disk::new();
    let mut writer = Writer {
        output: Output::File(LogFile::open(&disk.path).unwrap()),
        text: b"23\n4567\n".to_vec(),
        is_begun: true,
    };
    fs::write(&disk.path, "1").unwrap();
    assert_eq!(writer.push(), 0);
    assert_eq!(disk.lines(), [json!(123), json!(4567)]);
    assert!(!writer.is_begun && writer.text.is_empty());

    // The same on a disk that takes nothing.
    let full = cut(b"4567\n89\n", 0, true);
    assert_eq!(full, (b"4567\n".to_vec(), true, 1));
    assert_eq!(cut(b"4567\n89\n", 0, false), (Vec::new(), false, 2));
    // And on one that takes some of it.
    assert_eq!(cut(b"4567\n89\n1\n", 2, false), (b"67\n".to_vec(), true, 2));
    assert_eq!(cut(b"4567\n89\n1\n", 5, true), (Vec::new(), false, 2));
    assert_eq!(cut(b"4567\n89\n1\n", 10, true), (Vec::new(), false, 0));
}

/// What is left to write, whether that begins within a line, and how many lines are lost, if this much of
/// a text can be written.
fn cut(text: &[u8], room: usize, is_begun: bool) -> (Vec<u8>, bool, u64) {
    let mut text = text.to_vec();
    let (is_begun, lost) = keep_begun(&mut text, room, is_begun);
    (text, is_begun, lost)
}

#[cfg(unix)]
#[test]
fn a_file_that_is_moved_is_begun_anew() {
    let (disk, moved) = (Disk::new(), Disk::new());
    let (log, written, lost) = open(&disk.path);
    log.write(1.into());
    let deadline = 10_000;
    let came = (0..deadline).any(|_| {
        thread::sleep(std::time::Duration::from_millis(1));
        !disk.lines().is_empty()
    });
    assert!(came);
    fs::rename(&disk.path, &moved.path).unwrap();
    // The first that comes is still for the old one, or already for the new.
    log.write(2.into());
    drop(log);
    end(written);
    let mut all = moved.lines();
    all.extend(disk.lines());
    assert_eq!((all, lost.load(Relaxed)), (vec![json!(1), json!(2)], 0));
}
