//! Hand-overs: the records that a person has to look at something, what an operator does with
//! one, and the port that keeps them.
//!
//! A record is opened by the fact [`HandedOver`](super::fact::Fact::HandedOver) of its session.
//! It outlives the session: what is still to be done is not forgotten because texts are.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use utoipa::ToSchema;

use super::{
    fact::HandoverCause,
    id::{ParseIdError, SessionId},
    port::StoreError,
    sensitive::Sensitive,
    time::Timestamp,
};

/// A hand-over: the session and the place of the fact in its journal, as `hand_`, 32 hex digits
/// and the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandoverId {
    /// The session.
    pub session: SessionId,
    /// The place of the fact.
    pub seq: u64,
}

/// Where a hand-over stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HandoverStatus {
    /// Nobody has taken it on.
    Open,
    /// An operator works on it.
    Claimed,
    /// It is done with.
    Closed,
}

/// A hand-over as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// Which.
    pub id: HandoverId,
    /// The agent of its session.
    pub agent: String,
    /// The kind of task of its session.
    pub task_type: String,
    /// Whose session it was; nothing once that is erased.
    pub principal: Option<String>,
    /// Why a person is asked for.
    pub cause: HandoverCause,
    /// The tool whose call it is about, if it is about one.
    pub tool: Option<String>,
    /// One phrase for the operator; nothing once the session is erased.
    pub detail: Option<Sensitive<String>>,
    /// When it was opened.
    pub opened: Timestamp,
    /// Who took it on, if somebody did.
    pub claimed: Option<OperatorWord>,
    /// Who closed it, if somebody did.
    pub closed: Option<OperatorWord>,
    /// Whether its session, and with it every text, is erased.
    pub erased: bool,
}

/// What an operator did, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorWord {
    /// The operator's identifier.
    pub by: Sensitive<String>,
    /// When.
    pub at: Timestamp,
    /// What there is to say to it.
    pub comment: Option<Sensitive<String>>,
}

/// What an operator does with a hand-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HandoverAction {
    /// Takes it on.
    Claim,
    /// Is done with it.
    Close,
}

/// Why an operator's word is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandoverObjection {
    /// Somebody else works on it.
    #[error("{id} was claimed by another operator at {at}")]
    Claimed {
        /// Which.
        id: HandoverId,
        /// Since when.
        at: Timestamp,
    },
    /// It is closed.
    #[error("{id} was closed at {at}")]
    Closed {
        /// Which.
        id: HandoverId,
        /// Since when.
        at: Timestamp,
    },
}

/// What came of an operator's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handling {
    /// There is no such hand-over.
    Unknown,
    /// It stands so now.
    Done(Handover),
    /// The same operator had done so before: nothing changed.
    Before(Handover),
    /// It is not taken.
    Objected(HandoverObjection),
}

/// Which hand-overs a list shows, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandoverFilter {
    /// Only those that stand so.
    pub status: Option<HandoverStatus>,
    /// Only those that were opened before this one, for the next page.
    pub before: Option<HandoverId>,
    /// At the most; 0 means 100.
    pub limit: usize,
}

/// Hand-overs that nobody has taken on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unclaimed {
    /// How many.
    pub count: u64,
    /// When the oldest was opened.
    pub oldest: Option<Timestamp>,
}

/// Where hand-overs are kept. Records are opened by [`Store::append`](super::Store::append), with
/// the facts. Calls block.
pub trait Handovers: Send + Sync {
    /// Some of them, newest first.
    ///
    /// # Errors
    /// Where the store cannot be read.
    fn handovers(&self, filter: &HandoverFilter) -> Result<Vec<Handover>, StoreError>;

    /// One of them.
    ///
    /// # Errors
    /// Where the store cannot be read.
    fn handover(&self, id: HandoverId) -> Result<Option<Handover>, StoreError>;

    /// Does what an operator says, in one transaction with the look at what stands: of two at
    /// once, in any two processes, one comes second.
    ///
    /// # Errors
    /// Where the store cannot be written; then nothing changed.
    fn handle(&self, id: HandoverId, action: HandoverAction, word: &OperatorWord) -> Result<Handling, StoreError>;

    /// How many nobody has taken on, and since when.
    ///
    /// # Errors
    /// Where the store cannot be read.
    fn unclaimed(&self) -> Result<Unclaimed, StoreError>;
}

impl Handover {
    /// Where it stands.
    pub const fn status(&self) -> HandoverStatus {
        match (&self.claimed, &self.closed) {
            (_, Some(_)) => HandoverStatus::Closed,
            (Some(_), None) => HandoverStatus::Claimed,
            (None, None) => HandoverStatus::Open,
        }
    }

    /// What comes of an operator's word. One may close what another works on, who may be gone;
    /// nobody may take from another what that one claimed, and what is closed stays closed.
    pub fn handled(self, action: HandoverAction, word: &OperatorWord) -> Handling {
        let (id, done) = (self.id, Some(word.clone()));
        match (action, &self.claimed, &self.closed) {
            (HandoverAction::Close, _, Some(closed)) if closed.by == word.by => Handling::Before(self),
            (_, _, Some(closed)) => Handling::Objected(HandoverObjection::Closed { id, at: closed.at }),
            (HandoverAction::Close, _, None) => Handling::Done(Self { closed: done, ..self }),
            (HandoverAction::Claim, None, None) => Handling::Done(Self { claimed: done, ..self }),
            (HandoverAction::Claim, Some(claimed), None) if claimed.by == word.by => Handling::Before(self),
            (HandoverAction::Claim, Some(claimed), None) => {
                Handling::Objected(HandoverObjection::Claimed { id, at: claimed.at })
            }
        }
    }

    /// What is left once its session is erased: that there is something to do, and no text.
    #[must_use]
    pub fn without_texts(self) -> Self {
        let silent = |word: OperatorWord| OperatorWord { comment: None, ..word };
        Self {
            principal: None,
            detail: None,
            claimed: self.claimed.map(silent),
            closed: self.closed.map(silent),
            erased: true,
            ..self
        }
    }
}

impl HandoverStatus {
    /// Every status.
    pub const ALL: [Self; 3] = [Self::Open, Self::Claimed, Self::Closed];

    /// The word that users see.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Claimed => "claimed",
            Self::Closed => "closed",
        }
    }
}

impl HandoverAction {
    /// Where a hand-over stands after it.
    pub const fn status(self) -> HandoverStatus {
        match self {
            Self::Claim => HandoverStatus::Claimed,
            Self::Close => HandoverStatus::Closed,
        }
    }
}

impl fmt::Display for HandoverId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hand_{}_{}", super::id::hex(&self.session.to_bytes()), self.seq)
    }
}

impl FromStr for HandoverId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let read = || {
            let (session, seq) = text.strip_prefix("hand_")?.split_once('_')?;
            let plain = seq.bytes().all(|digit| digit.is_ascii_digit()) && (seq == "0" || !seq.starts_with('0'));
            let seq = seq.parse().ok().filter(|seq| plain && i64::try_from(*seq).is_ok())?;
            Some(Self { session: format!("sess_{session}").parse().ok()?, seq })
        };
        read().ok_or_else(|| ParseIdError::new("hand_, 32 hex digits, _ and a number", text))
    }
}

impl Serialize for HandoverId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HandoverId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(by: &str, at: u64) -> OperatorWord {
        OperatorWord { by: by.into(), at: Timestamp::from_nanos(at), comment: Some("позвоню".into()) }
    }

    fn open() -> Handover {
        Handover {
            id: HandoverId { session: SessionId::from_bytes([1; 16]), seq: 7 },
            agent: "bank".into(),
            task_type: "card".into(),
            principal: Some("C-001".into()),
            cause: HandoverCause::UnknownOutcome,
            tool: Some("pay".into()),
            detail: Some("call c of pay".into()),
            opened: Timestamp::from_nanos(1),
            claimed: None,
            closed: None,
            erased: false,
        }
    }

    /// What becomes of a hand-over that these did these things with, one after the other.
    fn told(acts: &[(&str, HandoverAction)]) -> Vec<&'static str> {
        let mut stands = open();
        let mut told = Vec::new();
        for ((by, action), at) in acts.iter().zip(2..) {
            told.push(match stands.clone().handled(*action, &word(by, at)) {
                Handling::Done(after) => {
                    stands = after;
                    stands.status().label()
                }
                Handling::Before(_) => "before",
                Handling::Objected(HandoverObjection::Claimed { .. }) => "claimed by another",
                Handling::Objected(HandoverObjection::Closed { .. }) => "closed already",
                Handling::Unknown => "unknown",
            });
        }
        told
    }

    #[test]
    fn one_operator_has_it_and_may_say_so_twice() {
        use HandoverAction::{Claim, Close};
        assert_eq!(told(&[("A", Claim), ("B", Claim), ("A", Claim)]), ["claimed", "claimed by another", "before"]);
        assert_eq!(told(&[("A", Claim), ("A", Close), ("A", Close)]), ["claimed", "closed", "before"]);
        assert_eq!(told(&[("A", Close), ("B", Close), ("A", Claim)]), ["closed", "closed already", "closed already"]);
        assert_eq!(told(&[("A", Claim), ("B", Close), ("A", Claim)]), ["claimed", "closed", "closed already"]);
    }

    #[test]
    fn without_its_session_no_text_is_left() {
        let Handling::Done(claimed) = open().handled(HandoverAction::Claim, &word("A", 2)) else { panic!("open") };
        let left = claimed.without_texts();
        assert_eq!((left.principal.clone(), left.detail.clone(), left.erased), (None, None, true));
        let claimed = left.claimed.expect("who has it is kept");
        assert_eq!((claimed.by, claimed.comment), ("A".into(), None));
    }

    #[test]
    fn an_id_is_read_as_it_is_written_and_nothing_else_is() {
        let text = "hand_01010101010101010101010101010101_7";
        assert_eq!(open().id.to_string(), text);
        assert_eq!(text.parse(), Ok(open().id));
        for wrong in
            ["", "hand_01_7", "sess_01010101010101010101010101010101", &format!("{text}x"), &format!("{text}_1")]
        {
            assert!(wrong.parse::<HandoverId>().is_err(), "{wrong}");
        }
        for seq in ["", "+7", "07", "-1", "9223372036854775808", "99999999999999999999"] {
            assert!(format!("hand_01010101010101010101010101010101_{seq}").parse::<HandoverId>().is_err(), "{seq}");
        }
    }
}
