//! The arithmetic of the report against values worked out by hand, and its three forms.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    super::{
        Arrivals,
        tally::{Start, Taken, Tally},
        target::{End, Seen},
    },
    *,
};
use crate::core::SessionStatus;

fn open(rate: f64) -> Pace {
    Pace::Open { rate, arrivals: Arrivals::Constant, warm_up: Duration::ZERO, duration: Duration::from_secs(100) }
}

/// A tally of sessions that took these milliseconds and ended so.
fn tally(ends: impl IntoIterator<Item = (u64, End)>) -> Tally {
    let (mut tally, zero) = (Tally::new(), Instant::now());
    for (ms, end) in ends {
        let start = Start { intended: zero, began: zero, warm_up: false };
        let over = zero + Duration::from_millis(ms);
        tally.begin(start);
        tally.end(start, Seen { accepted: Some(over), id: None, spans: Vec::new(), over, end });
    }
    tally
}

fn ended(status: SessionStatus) -> End {
    End::Ended { status, degraded: false }
}

/// 1 to 1000 ms, once each: the percentiles are the numbers themselves.
fn thousand() -> Tally {
    tally((1..=1000).map(|ms| (ms, ended(SessionStatus::Done))))
}

#[test]
fn percentiles_are_those_of_the_times() {
    let latency = Stage::of("1x", open(10.0), 100.0, &thousand(), &[]).end_to_end;
    assert_eq!(latency.count, 1000);
    // Three digits: a thousandth more at the most, and never less.
    for (found, right) in [
        (latency.p50_ms, 500.0),
        (latency.p90_ms, 900.0),
        (latency.p95_ms, 950.0),
        (latency.p99_ms, 990.0),
        (latency.p99_9_ms, 999.0),
        (latency.max_ms, 1000.0),
    ] {
        assert!((right..=right * 1.001).contains(&found), "{found} for {right}");
    }
    let (last, _) = latency.curve.last().expect("a curve");
    assert_eq!(last.to_string(), "99.9", "a thousand sessions tell no more apart");
    assert!(latency.curve.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1));
}

#[test]
fn success_is_done_of_all_but_cancelled() {
    let ends = [
        (1, ended(SessionStatus::Done)),
        (1, ended(SessionStatus::Done)),
        (1, ended(SessionStatus::Done)),
        (1, ended(SessionStatus::Error)),
        (1, ended(SessionStatus::Cancelled)),
        (1, End::Refused(429)),
        (1, End::Failed("no connection")),
        (1, End::TimedOut),
        (1, End::Refused(429)),
    ];
    let stage = Stage::of("1x", open(10.0), 1.0, &tally(ends), &[]);
    assert_eq!(stage.success_rate, Some(3.0 / 8.0));
    assert_eq!(stage.refused, BTreeMap::from([(429, 2)]));
    assert_eq!(stage.failed, BTreeMap::from([("no connection", 1), ("timeout", 1)]));
    assert_eq!(stage.statuses, BTreeMap::from([("cancelled", 1), ("done", 3), ("error", 1)]));
    assert_eq!(Stage::of("1x", open(10.0), 1.0, &tally([]), &[]).success_rate, None);
}

#[test]
fn late_starts_are_counted_from_where_they_should_have_been() {
    let (mut tally, zero) = (Tally::new(), Instant::now());
    for lag in [0, 20, 21, 400] {
        let intended = zero + Duration::from_secs(1);
        tally.begin(Start { intended, began: intended + Duration::from_millis(lag), warm_up: false });
    }
    let late = Stage::of("1x", open(10.0), 1.0, &tally, &[]).late;
    assert_eq!((late.count, late.worst_ms.to_string().as_str()), (2, "400"));
}

fn samples() -> Vec<Sample> {
    let mib = |mib: f64| mib * 1_048_576.0;
    let sample = |at: f64, cpu: f64, resident: f64, dropped: f64| Sample {
        at,
        cpu,
        resident: mib(resident),
        dropped,
        max_files: 0.0,
    };
    vec![sample(2.0, 5.0, 40.0, 1.0), sample(12.0, 9.0, 41.0, 1.0), sample(22.0, 15.0, 42.0, 4.0)]
}

#[test]
fn the_service_is_told_by_what_it_needed_in_the_stage() {
    let stage = Stage::of("1x", open(10.0), 20.0, &thousand(), &samples());
    let server = stage.server.expect("samples");
    let text = |value: f64| value.to_string();
    assert_eq!((text(server.cpu_seconds), text(server.cpu_share)), ("10".into(), "0.5".into()));
    assert_eq!(server.cpu_ms_per_session.map(text), Some("10".into()), "10 s over 1000 sessions");
    assert_eq!((text(server.resident_start_mib), text(server.resident_peak_mib)), ("40".into(), "42".into()));
    // 2 MiB in 20 s are 6 MiB, 6144 KiB, a minute.
    assert_eq!(server.growth_kib_per_minute.map(text), Some("6144".into()));
    assert_eq!(stage.telemetry.dropped.map(text), Some("3".into()));
    let short = Stage::of("1x", open(10.0), 5.0, &thousand(), &samples()[..1]);
    assert_eq!(short.server.expect("a sample").growth_kib_per_minute, None);
}

fn report() -> Report {
    let id = SessionId::from_bytes([7; 16]);
    let first = Stage::of("1x", open(5.0), 20.0, &thousand(), &samples());
    let twice = tally((1..=1000).map(|ms| (ms * 2, ended(SessionStatus::Done))).chain([(9, End::Refused(503))]));
    let mut second = Stage::of("10x", open(50.0), 20.0, &twice, &samples());
    second.lost = vec![id];
    (second.telemetry.spans_expected, second.telemetry.spans_arrived) = (Some(10), Some(8));
    let threshold: crate::load::Threshold = "lost>0".parse().expect("a threshold");
    Report {
        version: "0.0.0",
        started_at: "2026-09-01T12:00:00Z".into(),
        server: "http://127.0.0.1:1".into(),
        own_server: None,
        seed: 1,
        beyond: threshold.judge(&second).into_iter().collect(),
        stages: vec![first, second],
        notes: vec!["a note with <b> & \"quotes\"".into()],
    }
}

#[test]
fn the_text_sets_the_stages_side_by_side() {
    let text = report().text();
    let line =
        |label: &str| text.lines().find(|line| line.starts_with(label)).unwrap_or_else(|| panic!("{label}: {text}"));
    let words = |label| {
        line(label)[label.len()..].split("  ").map(str::trim).filter(|word| !word.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(words("sessions wanted"), ["5/s", "50/s"]);
    assert_eq!(words("success"), ["100.00 %", "99.90 %"]);
    assert_eq!(words("refused, status 503"), ["0", "1"]);
    assert_eq!(words("lost"), ["0", "1"]);
    assert_eq!(words("end to end p50"), ["500 ms", "1.00 s", "x2.00"]);
    assert_eq!(words("spans arrived of expected"), ["-", "8 of 10"]);
    assert_eq!(words("processors used"), ["0.50", "0.50", "x1.00"]);
    assert!(text.ends_with("beyond lost>0: 1 in stage 10x\n"), "{text}");
}

#[test]
fn the_page_is_well_formed_and_needs_nothing_else() {
    let page = html(&report()).expect("it renders");
    for outside in ["https:", "src=", "href=", "<script", "<link", "@import", "url("] {
        assert!(!page.contains(outside), "the page names {outside}");
    }
    assert_eq!(page.matches("http:").count(), 1, "where the service is, as text");
    assert!(page.contains("a note with &#60;b&#62; &#38; &#34;quotes&#34;"), "{page}");
    assert_eq!(page.matches("<svg").count(), 3);
    assert_eq!(page.matches("class=\"curve ").count(), 6, "a curve a stage in each");
    closed(&page);
}

/// Every element is closed in its order, but those of HTML that have no end.
fn closed(page: &str) {
    let mut open = Vec::new();
    for tag in page.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(tag, _)| tag) {
        let name = tag.trim_end_matches('/').split_whitespace().next().unwrap_or_default();
        if let Some(name) = name.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "</{name}> closes something else");
        } else if !tag.ends_with('/') && !["!doctype", "meta"].contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn json_has_every_number_and_its_name() {
    let json = serde_json::to_value(report()).expect("plain data");
    assert_eq!(json["stages"][0]["success_rate"], 1.0);
    assert_eq!(json["stages"][1]["refused"]["503"], 1);
    assert_eq!(json["stages"][1]["lost"][0], "sess_07070707070707070707070707070707");
    assert_eq!(json["beyond"][0]["threshold"], "lost>0");
}

#[test]
fn what_was_taken_is_kept_for_the_census() {
    let (mut tally, zero) = (Tally::new(), Instant::now());
    let start = Start { intended: zero, began: zero, warm_up: true };
    let id = SessionId::from_bytes([1; 16]);
    tally.end(start, Seen { id: Some(id), ..Seen::begun() });
    let Taken { id: kept, ended, .. } = &tally.taken[0];
    assert_eq!((*kept, *ended, tally.over), (id, false, 0), "a session of the warm-up can be lost too");
}
