//! After the sessions: whether the service still knows each one that it took, and each has ended.

use std::{collections::HashSet, time::Duration};

use tokio::time::{Instant, sleep};

use super::{service::Service, tally::Taken};
use crate::core::{SessionId, SessionStatus};

/// What a session that still runs gets to end, after its caller gave up.
const GRACE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(250);

/// Sessions of which the service owes an end: those that it does not know, and those that have
/// none.
pub(super) async fn lost(service: &Service, taken: &[Taken]) -> Vec<SessionId> {
    let mut open: HashSet<SessionId> = taken.iter().map(|session| session.id).collect();
    by_pages(service, &mut open).await;
    // What the pages do not settle is asked for one by one: others may have begun sessions too.
    let until = Instant::now() + GRACE;
    loop {
        let mut settled = Vec::new();
        for id in &open {
            if service.status(*id).await.is_some_and(settles) {
                settled.push(*id);
            }
        }
        settled.iter().for_each(|id| _ = open.remove(id));
        if open.is_empty() || Instant::now() >= until {
            let mut lost: Vec<_> = open.into_iter().collect();
            lost.sort_unstable();
            return lost;
        }
        sleep(PAUSE).await;
    }
}

/// Takes out those that a page of the list shows as ended, as long as pages hold any of ours.
async fn by_pages(service: &Service, open: &mut HashSet<SessionId>) {
    let mut before = None;
    while !open.is_empty() {
        let Some(page) = service.page(before).await else { return };
        let of_ours = page.iter().filter(|(id, _)| open.contains(id)).count();
        for (id, status) in &page {
            if settles(*status) {
                open.remove(id);
            }
        }
        before = page.last().map(|(id, _)| *id);
        if of_ours == 0 || before.is_none() {
            return;
        }
    }
}

/// Whether nothing more is owed by the service: the end, or a person has to come.
const fn settles(status: SessionStatus) -> bool {
    status.is_final() || matches!(status, SessionStatus::AwaitingConfirmation)
}
