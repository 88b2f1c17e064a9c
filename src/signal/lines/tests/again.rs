//! Lines that are written again: the same bytes, from the mark on, and what may be kept of it.

use std::{
    fs,
    io::{self, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{Buffer, Lines, Output, dropped, eventful, hash, redefined, switched};
use crate::{
    core::{Entry, Fact, SessionStatus, StreamId, ToolOutcome, fact::ModelOutcome, fact::SuspendCause, mark::Mark},
    signal::samples::{Journal, session_end},
};

fn shared(entries: &[Entry]) -> Vec<Arc<Entry>> {
    entries.iter().cloned().map(Arc::new).collect()
}

fn places(marks: &[Mark]) -> Vec<u64> {
    marks.iter().map(|mark| mark.next).collect()
}

fn started() -> (Lines, Buffer) {
    let buffer = Buffer::default();
    (Lines::new(Output::Writer(Box::new(buffer.clone())), hash(), dropped()).expect("lines"), buffer)
}

/// Ends the lines and gives what was written, and how far that is.
fn ended((lines, buffer): (Lines, Buffer)) -> (String, Vec<u64>) {
    assert!(lines.stop(Duration::from_secs(60)));
    let text = String::from_utf8(buffer.0.lock().expect("no panic").clone()).expect("UTF-8");
    (text, places(&lines.unsaved_marks()))
}

/// A session that is cut in the middle of a call, suspended and gone on with.
fn interrupted() -> Journal {
    let mut journal = Journal::new(1);
    journal.started("bank", "spending");
    let call = journal.model_started(1, "main");
    journal.model_attempt(call, 1, "main", ModelOutcome::Ok);
    journal.after(Duration::from_millis(7)).model_finished(call, ModelOutcome::Ok, (10, 20));
    let tool = journal.tool_started(1, "search", true);
    journal.tool_attempt(tool, 1, ToolOutcome::Failed);
    journal.push(Fact::SessionSuspended { cause: SuspendCause::Drain });
    journal.push(Fact::SessionResumed { process: "proc".into() });
    journal.after(Duration::from_millis(30)).tool_attempt(tool, 2, ToolOutcome::Ok);
    journal.after(Duration::from_millis(30)).tool_finished(tool, ToolOutcome::Ok, Some(true), 2);
    journal.push(Fact::SessionFinished(Box::new(session_end(SessionStatus::Done, None))));
    journal
}

/// Where a session was taken up; at its beginning, if it never was.
fn taken_up(entries: &[Entry]) -> usize {
    entries.iter().position(|entry| matches!(entry.fact, Fact::SessionResumed { .. })).unwrap_or_default()
}

/// The line of each place of the journal, as the processes wrote them that recorded its facts.
fn first_time(entries: &[Entry]) -> Vec<(u64, String)> {
    let (before, after) = entries.split_at(taken_up(entries));
    let lines = [super::lines_of(&[], before), super::lines_of(before, after)].concat();
    let place = |line: &str| super::parse(line)[0]["seq"].as_u64().expect("a place");
    lines.split_inclusive('\n').map(|line| (place(line), line.to_owned())).collect()
}

fn behind(lines: &[(u64, String)], mark: u64) -> String {
    lines.iter().filter(|(seq, _)| *seq >= mark).map(|(_, line)| line.as_str()).collect()
}

#[test]
fn whoever_takes_a_session_up_anywhere_writes_the_same_bytes_from_the_mark_on() {
    for journal in [interrupted(), eventful()] {
        let entries = &journal.entries;
        let lines = first_time(entries);
        for cut in taken_up(entries)..entries.len() {
            for mark in 0..=cut as u64 {
                let second = started();
                second.0.adopt(&entries[..cut], mark);
                second.0.sink().publish(&shared(&entries[cut..]));
                let (text, kept) = ended(second);
                // Nothing is known of a session whose journal is empty.
                let mark = if cut == 0 { 0 } else { mark };
                assert_eq!(text, behind(&lines, mark), "taken up at {cut} with a mark at {mark}");
                assert_eq!(kept, [entries.len() as u64]);
            }
        }
    }
}

#[test]
fn what_nobody_drives_is_written_again_from_any_mark() {
    let journal = interrupted();
    let lines = first_time(&journal.entries);
    for mark in 0..journal.entries.len() as u64 {
        let second = started();
        assert!(second.0.write_again(&journal.entries, mark));
        assert_eq!(ended(second), (behind(&lines, mark), vec![journal.entries.len() as u64]), "{mark}");
    }
}

#[test]
fn what_is_driven_here_is_not_written_again() {
    let journal = interrupted();
    let lines = started();
    lines.0.sink().publish(&shared(&journal.entries[..3]));
    assert!(!lines.0.write_again(&journal.entries[..3], 0));
    assert_eq!(ended(lines).0.lines().count(), 1);
}

#[test]
fn a_process_that_is_gone_is_written_again_with_what_follows_its_last_line() {
    let process = |seq, fact| Entry { seq, fact, ..switched() };
    let of_no_line = Fact::ProcessStopped { suspended: 0 };
    let entries = [process(7, switched().fact), process(8, redefined(None).fact), process(9, of_no_line)];
    let first = super::lines_of(&[], &entries);
    let second = started();
    assert!(second.0.write_again(&entries, 8));
    let (text, kept) = ended(second);
    assert_eq!(text, first.split_inclusive('\n').skip(1).collect::<String>());
    assert_eq!(kept, [10], "its mark may go");
}

/// An output that takes nothing while it is told so.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<(Vec<u8>, bool)>>);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (text, full) = &mut *self.0.lock().expect("no panic");
        if *full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_mark_is_never_ahead_of_what_the_output_took() {
    let disk = Disk::default();
    disk.0.lock().expect("no panic").1 = true;
    let dropped = dropped();
    let lines = Lines::new(Output::Writer(Box::new(disk.clone())), hash(), dropped.clone()).expect("lines");
    let journal = eventful();
    lines.sink().publish(&shared(&journal.entries));
    assert!(lines.stop(Duration::from_secs(60)));
    assert_eq!(dropped.get(), first_time(&journal.entries).len() as u64);
    assert_eq!(lines.unsaved_marks(), []);
    assert_eq!(disk.0.lock().expect("no panic").0, b"");
}

#[test]
fn marks_are_asked_for_with_the_facts_that_make_lines_owed() {
    let (lines, _) = started();
    let sink = lines.sink();
    let journal = interrupted();
    let asked = |entries: &[Entry]| -> Vec<(u64, u64)> {
        entries.iter().filter_map(|entry| Some((entry.seq, sink.owes_from(entry)?))).collect()
    };
    let resumed = journal.entries.iter().find(|entry| matches!(entry.fact, Fact::SessionResumed { .. }));
    assert_eq!(asked(&journal.entries), [(0, 0), (resumed.expect("it is").seq, 0)]);
    // A process owes where it has a line to tell, and only there.
    let facts = [switched().fact, redefined(None).fact, Fact::ProcessStopped { suspended: 0 }];
    let process: Vec<_> = (0..).zip(facts).map(|(seq, fact)| Entry { seq, fact, ..switched() }).collect();
    assert_eq!(asked(&process), [(0, 0), (1, 1)]);
    let lines = super::parse(&super::lines_of(&[], &process));
    let told: Vec<_> = lines.iter().map(|line| line["seq"].as_u64().expect("a place")).collect();
    assert_eq!(told, [0, 1]);
    assert!(matches!(process[0].stream, StreamId::System(_)));
}

#[test]
fn a_line_that_a_killed_process_left_unfinished_spoils_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("events.jsonl");
    for (left, expected) in [("{\"event\":\"tool_c", "{\"event\":\"tool_c\n"), ("{}\n", "{}\n"), ("", "")] {
        fs::write(&path, left).expect("written");
        let lines = Lines::new(Output::File(path.clone()), hash(), dropped()).expect("lines");
        lines.sink().publish(&shared(&interrupted().entries[..1]));
        assert!(lines.stop(Duration::from_secs(60)));
        let text = fs::read_to_string(&path).expect("text");
        let new = text.strip_prefix(expected).expect("what was there, ended");
        assert_eq!(super::parse(new).len(), 1, "{text}");
    }
}
