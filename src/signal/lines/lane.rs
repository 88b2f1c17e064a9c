//! The bounded lane between the fold and the place that lines go to, with a thread of its own.
//!
//! It must never block whoever pushes. What it cannot take or write is lost and counted, line by
//! line, and the next line tries again.

use std::{
    io, mem,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, channel, sync_channel},
    },
    thread,
    time::Duration,
};

use prometheus::IntCounter;

use super::{
    losses::Losses,
    marks::{Marks, Stride},
    place::Place,
};

/// Lines that wait for their write at the most.
const CAPACITY: usize = 8192;
/// Bytes that are gathered for one write.
const BATCH: usize = 64 * 1024;
/// How long the first line waits for others, so that a commit's lines are one write, and the
/// thread is not woken for each of them.
const LINGER: Duration = Duration::from_millis(2);

/// The fold's end of the lane.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    lines: SyncSender<Item>,
    shared: Arc<Shared>,
}

/// A line with its line end, and what it adds to its stream.
#[derive(Debug)]
struct Item {
    text: Vec<u8>,
    stride: Option<Stride>,
}

/// Waits for the thread's end.
#[derive(Debug)]
pub(super) struct Ended(Receiver<()>);

#[derive(Debug)]
struct Shared {
    /// Lines pushed and not yet written or lost.
    waiting: AtomicU64,
    /// Lines that found no room, of which the thread does not know yet.
    refused: AtomicU64,
    stopping: AtomicBool,
    dropped: IntCounter,
    marks: Arc<Marks>,
}

/// The thread's end: lines gathered for one write.
struct Writer {
    output: Place,
    batch: Vec<u8>,
    /// The strides of its lines, each with the place in the batch where its line ends.
    strides: Vec<(usize, Stride)>,
    /// A write ended inside a line; the next one begins on a new line.
    torn: bool,
    losses: Losses,
    shared: Arc<Shared>,
}

impl Lane {
    /// Starts the thread that writes. What it wrote, and what is lost, it tells `marks`. Where the
    /// output is `torn`, it ends inside a line that another process left.
    pub(super) fn start(
        output: Place,
        torn: bool,
        dropped: IntCounter,
        marks: Arc<Marks>,
    ) -> io::Result<(Self, Ended)> {
        Self::with_capacity(CAPACITY, output, torn, dropped, marks)
    }

    fn with_capacity(
        capacity: usize,
        output: Place,
        torn: bool,
        dropped: IntCounter,
        marks: Arc<Marks>,
    ) -> io::Result<(Self, Ended)> {
        let (lines, queue) = sync_channel(capacity);
        let (ended, wait) = channel::<()>();
        let shared = Arc::new(Shared::new(dropped, marks));
        let mut writer = Writer::new(output, torn, Arc::clone(&shared));
        thread::Builder::new().name("event-lines".to_owned()).spawn(move || {
            writer.run(&queue);
            // The lane closes before the end is told: what comes later is refused and counted.
            drop(queue);
            drop(ended);
        })?;
        Ok((Self { lines, shared }, Ended(wait)))
    }

    /// Hands over a line with its line end, and what it adds to its stream.
    pub(super) fn push(&self, text: Vec<u8>, stride: Option<Stride>) {
        self.shared.waiting.fetch_add(1, Ordering::AcqRel);
        if self.lines.try_send(Item { text, stride }).is_err() {
            self.shared.lost(1);
            self.shared.refused.fetch_add(1, Ordering::AcqRel);
            self.shared.marks.lost(stride.into_iter());
        }
    }

    /// How many more lines it has room for, about.
    pub(super) fn room(&self) -> usize {
        let waiting = usize::try_from(self.shared.waiting.load(Ordering::Acquire)).unwrap_or(usize::MAX);
        CAPACITY.saturating_sub(waiting)
    }

    /// Writes what waits and ends the thread, waiting for it up to `grace`. If the output hangs,
    /// what waits is counted as lost. Gives whether all ended in time.
    pub(super) fn stop(&self, ended: &Ended, grace: Duration) -> bool {
        self.shared.stopping.store(true, Ordering::Release);
        // Wakes a thread that waits; a full lane needs no waking. An empty line writes nothing.
        let _ = self.lines.try_send(Item { text: Vec::new(), stride: None });
        let in_time = !matches!(ended.0.recv_timeout(grace), Err(RecvTimeoutError::Timeout));
        self.shared.dropped.inc_by(self.shared.waiting.swap(0, Ordering::AcqRel));
        in_time
    }
}

impl Shared {
    fn new(dropped: IntCounter, marks: Arc<Marks>) -> Self {
        let (waiting, refused, stopping) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        Self { waiting, refused, stopping, dropped, marks }
    }

    fn written(&self, lines: u64) {
        // Saturates, because a stop that gave up has already counted what waited.
        let less = |waiting: u64| Some(waiting.saturating_sub(lines));
        let _ = self.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    }

    fn lost(&self, lines: u64) {
        self.written(lines);
        self.dropped.inc_by(lines);
    }
}

impl Writer {
    fn new(output: Place, torn: bool, shared: Arc<Shared>) -> Self {
        Self { output, batch: Vec::new(), strides: Vec::new(), torn, losses: Losses::default(), shared }
    }

    fn run(&mut self, queue: &Receiver<Item>) {
        while let Ok(item) = queue.recv() {
            self.gather(item);
            if !self.shared.stopping.load(Ordering::Acquire) {
                thread::sleep(LINGER);
            }
            while self.batch.len() < BATCH {
                match queue.try_recv() {
                    Ok(item) => self.gather(item),
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
                }
            }
            self.write_batch();
            if self.shared.stopping.load(Ordering::Acquire) {
                for item in queue.try_iter() {
                    self.gather(item);
                }
                self.write_batch();
                return;
            }
        }
    }

    fn gather(&mut self, item: Item) {
        self.batch.extend_from_slice(&item.text);
        self.strides.extend(item.stride.map(|stride| (self.batch.len(), stride)));
    }

    /// Writes the batch; of a failed write, the lines that are not wholly out are lost.
    fn write_batch(&mut self) {
        let batch = mem::take(&mut self.batch);
        let (out, why) = self.write_out(&batch);
        let (written, rest) = batch.split_at(out);
        self.shared.written(count_lines(written));
        let lost = count_lines(rest);
        self.shared.lost(lost);
        self.batch = batch;
        self.batch.clear();
        // Only now: a mark must never be ahead of what the system has taken.
        let whole = self.strides.iter().take_while(|(end, _)| *end <= out).count();
        self.shared.marks.out(self.strides.drain(..whole).map(|(_, stride)| stride));
        self.shared.marks.lost(self.strides.drain(..).map(|(_, stride)| stride));
        // Whoever pushes tells nothing: the diagnostics may be as stuck as the output is.
        let refused = self.shared.refused.swap(0, Ordering::AcqRel);
        if let Some(news) = self.losses.note(out, lost + refused) {
            news.tell(why.as_ref());
        }
    }

    /// Writes as much as goes out, and gives how many bytes that is, and why it is not all.
    fn write_out(&mut self, batch: &[u8]) -> (usize, Option<io::Error>) {
        if batch.is_empty() {
            return (0, None);
        }
        if let Err(why) = self.begin() {
            return (0, Some(why));
        }
        let (mut out, mut why) = (0, None);
        while out < batch.len() && why.is_none() {
            match self.output.write(&batch[out..]) {
                Ok(0) => why = Some(io::ErrorKind::WriteZero.into()),
                Ok(more) => out += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => why = Some(error),
            }
        }
        self.torn = out > 0 && batch[out - 1] != b'\n';
        (out, why)
    }

    /// Brings the output to the beginning of a line. Only here may it become another file: a
    /// batch is never split.
    fn begin(&mut self) -> io::Result<()> {
        self.torn = self.output.ready(self.torn)?;
        if self.torn && self.output.write(b"\n")? == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.torn = false;
        Ok(())
    }
}

/// Whole lines of a part of a batch.
fn count_lines(part: &[u8]) -> u64 {
    part.iter().map(|byte| u64::from(*byte == b'\n')).sum()
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        sync::{Mutex, mpsc},
    };

    use super::*;

    /// A disk with room for so many bytes, which can grow.
    #[derive(Clone)]
    struct Disk(Arc<Mutex<(Vec<u8>, usize)>>);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (text, room) = &mut *self.0.lock().expect("no panic");
            let fits = bytes.len().min(*room - text.len());
            if fits == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            text.extend_from_slice(&bytes[..fits]);
            Ok(fits)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn dropped() -> IntCounter {
        IntCounter::new("dropped_total", "Lines lost.").expect("a name")
    }

    fn writer(room: usize) -> (Writer, Disk, IntCounter) {
        let (disk, dropped) = (Disk(Arc::new(Mutex::new((Vec::new(), room)))), dropped());
        let shared = Shared::new(dropped.clone(), Arc::default());
        let writer = Writer::new(Place::Writer(Box::new(disk.clone())), false, Arc::new(shared));
        (writer, disk, dropped)
    }

    #[test]
    fn a_full_disk_loses_exactly_the_lines_that_are_not_whole() {
        let (mut writer, disk, dropped) = writer(5);
        writer.batch = b"one\ntwo\nthree\n".to_vec();
        writer.write_batch();
        assert_eq!(dropped.get(), 2);
        writer.batch = b"four\n".to_vec();
        writer.write_batch();
        assert_eq!(dropped.get(), 3);
        disk.0.lock().expect("no panic").1 = 100;
        writer.batch = b"five\n".to_vec();
        writer.write_batch();
        assert_eq!(dropped.get(), 3);
        assert_eq!(disk.0.lock().expect("no panic").0, b"one\nt\nfive\n");
    }

    #[test]
    fn what_waits_at_the_stop_is_written() {
        let (disk, dropped) = (Disk(Arc::new(Mutex::new((Vec::new(), 1000)))), dropped());
        let (lane, ended) = Lane::start(Place::Writer(Box::new(disk.clone())), false, dropped.clone(), Arc::default())
            .expect("a thread");
        for _ in 0..100 {
            lane.push(b"line\n".to_vec(), None);
        }
        assert!(lane.stop(&ended, Duration::from_secs(60)));
        assert_eq!(disk.0.lock().expect("no panic").0.len(), 500);
        lane.push(b"late\n".to_vec(), None);
        assert_eq!(dropped.get(), 1);
    }

    /// An output that says when it is asked and waits for a word.
    struct Hanging(mpsc::Sender<()>, mpsc::Receiver<()>);

    impl Write for Hanging {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(()).expect("the test listens");
            self.1.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_hanging_output_blocks_nobody_and_every_lost_line_is_counted() {
        let ((asked, asks), (go, goes)) = (mpsc::channel(), mpsc::channel());
        let dropped = dropped();
        let output = Place::Writer(Box::new(Hanging(asked, goes)));
        let (lane, ended) = Lane::with_capacity(2, output, false, dropped.clone(), Arc::default()).expect("a thread");
        lane.push(b"1\n".to_vec(), None);
        asks.recv().expect("the write began");
        for _ in 0..5 {
            lane.push(b"2\n".to_vec(), None);
        }
        // One is being written, two wait, three found no room.
        assert_eq!(dropped.get(), 3);
        assert!(!lane.stop(&ended, Duration::ZERO));
        assert_eq!(dropped.get(), 6);
        drop(go);
    }
}
