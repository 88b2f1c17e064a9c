//! The redactor: replaces what looks like personal data or a secret in free text by a mark.
//!
//! One pass of a linear-time expression finds candidates; numbers count only where their check
//! digits agree. Identifiers of ours, dates and amounts stay. It must never know where the text
//! goes, and it is a net, not a wall: text of people belongs in no signal in the first place.

mod digits;
mod leaves;

use std::{borrow::Cow, sync::LazyLock};

use regex::{Captures, Regex};

pub use self::leaves::{redact_json, redact_text, structure};

/// The candidates, in the order in which they are tried at one place of the text.
///
/// What may be tried and given up for a later one is bounded in length: without the bound on the
/// first part of an e-mail address, a text of n numbers would be read n times. Boundaries are
/// those of ASCII, since others would send every Russian text to the slow engine.
const CANDIDATES: &str = r#"(?x)
  (?P<keep>
      (?-u:\b)(?:sess_|proc_|sha256:)?[0-9a-fA-F]{64}(?-u:\b)
    | (?-u:\b)(?:sess_|proc_)?[0-9a-fA-F]{32}(?-u:\b)
    | (?-u:\b)[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}(?-u:\b)
    | (?-u:\b)[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T\ ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?)?(?-u:\b)
  )
| (?P<jwt>(?-u:\b)eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*)
| (?i:(?-u:\b)(?P<scheme>bearer|basic)[\ \t]{1,9})(?P<token>[A-Za-z0-9._~+/=-]{8,})
| (?i:(?-u:\b)(?P<name>api[_-]?key|client[_-]?secret|secret|password|passwd|(?:access|refresh|auth)[_-]?token)
    (?P<is>["']?\s{0,9}[:=]\s{0,9}["']?))(?P<secret>[^\s"',;&]{6,})
| (?P<key>
      (?-u:\b)(?:sk|pk|rk|gh[pousr]|github_pat|glpat|xox[abeprs]|hf|npm)[_-][A-Za-z0-9_-]{16,}
    | (?-u:\b)(?:AKIA|ASIA)[0-9A-Z]{16}(?-u:\b)
    | (?-u:\b)AIza[A-Za-z0-9_-]{35}
  )
| (?P<email>[0-9A-Za-zЀ-ӿ._%+-]{1,64}@[0-9A-Za-zЀ-ӿ-]+(?:\.[0-9A-Za-zЀ-ӿ-]+)+)
| (?P<iban>(?-u:\b)[A-Za-z]{2}[0-9]{2}(?:[A-Za-z0-9]{11,30}|(?:\ [A-Z0-9]{4}){2,7}(?:\ [A-Z0-9]{1,3})?)(?-u:\b))
| (?P<digits>\+?\(?(?-u:\b)[0-9]+(?:[\ \-()\u{a0}\u{2009}\u{202f}]{1,3}[0-9]+)*(?-u:\b))
"#;

static PATTERN: LazyLock<Regex> = LazyLock::new(|| Regex::new(CANDIDATES).expect("the pattern is a constant"));

/// The text with e-mail addresses, phone and card numbers, IBANs, Kazakh IINs, JWTs, bearer
/// tokens and API keys replaced by `[email]`, `[phone]`, `[card]`, `[iban]`, `[iin]`, `[jwt]`,
/// `[token]` and `[key]`. Borrowed where nothing had to go.
pub fn redact(text: &str) -> Cow<'_, str> {
    PATTERN.replace_all(text, |found: &Captures<'_>| replacement(text, found))
}

fn replacement(text: &str, found: &Captures<'_>) -> String {
    let whole = found.get(0).expect("group 0 is the match");
    let group = |name| found.name(name).map_or("", |part| part.as_str());
    if found.name("jwt").is_some() {
        "[jwt]".to_owned()
    } else if found.name("token").is_some() {
        format!("{} [token]", group("scheme"))
    } else if found.name("secret").is_some() {
        format!("{}{}[key]", group("name"), group("is"))
    } else if found.name("key").is_some() {
        "[key]".to_owned()
    } else if found.name("email").is_some() {
        "[email]".to_owned()
    } else if found.name("iban").is_some() {
        digits::redact_iban(whole.as_str())
    } else if found.name("digits").is_some() && !is_fraction(&text[..whole.start()]) {
        digits::redact_digits(whole.as_str())
    } else {
        whole.as_str().to_owned()
    }
}

/// Whether what stands before makes the digits the decimals of a number.
fn is_fraction(before: &str) -> bool {
    let mut back = before.chars().rev();
    matches!(back.next(), Some('.' | ',')) && back.next().is_some_and(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_go() {
        for (text, expected) in [
            ("write to ivan.petrov+x@mail.example.kz today", "write to [email] today"),
            ("почта иван@пример.рф.", "почта [email]."),
            ("call +7 701 123 45 67 now", "call [phone] now"),
            ("тел. 8 (701) 123-45-67, спасибо", "тел. [phone], спасибо"),
            ("87011234567", "[phone]"),
            ("call +44 20 7946 0958", "call [phone]"),
            ("(415) 555-2671", "[phone]"),
            ("card 4111 1111 1111 1111 paid 5000", "card [card] paid 5000"),
            ("4111111111111111", "[card]"),
            ("3782-822463-10005", "[card]"),
            ("amount 5000 4111 1111 1111 1111", "amount 5000 [card]"),
            ("IBAN KZ86 125K ZT50 0410 0100.", "IBAN [iban]."),
            ("DE89370400440532013000", "[iban]"),
            ("gb82west12345698765432", "[iban]"),
            ("KZ86 4111 1111 1111 1111", "KZ86 [card]"),
            ("ИИН 900101300017", "ИИН [iin]"),
            // The first row of weights gives 10, so the second decides.
            ("IIN 900101300811", "IIN [iin]"),
            ("Authorization: Bearer abcdef0123456789", "Authorization: Bearer [token]"),
            ("key sk-ant-api03-abcdefghijklmnop", "key [key]"),
            ("{\"api_key\": \"hunter2hunter2\"}", "{\"api_key\": \"[key]\"}"),
            ("password=hunter2!x&next=1", "password=[key]&next=1"),
            ("AKIAIOSFODNN7EXAMPLE", "[key]"),
            ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl end", "jwt [jwt] end"),
        ] {
            assert_eq!(redact(text), expected, "{text}");
        }
    }

    #[test]
    fn what_must_stay() {
        for text in [
            "2026-02-18",
            "2026-02-18T10:23:45.000Z",
            "at 2026-02-18 10:23:45 it was 5000",
            "5000",
            "12 500 000 ₸",
            "+5000",
            "123e4567-e89b-12d3-a456-426614174000",
            "00000000-0000-4000-8000-900101300017",
            "000102030405060708090a0b0c0d0e0f",
            "41111111111111114111111111111111",
            "sess_000102030405060708090a0b0c0d0e0f",
            "0.4111111111111111",
            "4111 1111 1111 1112",
            "900101300018",
            "1771410225000",
            "DE89370400440532013001",
            "step 3 of 15, 12400 + 3200 tokens",
            "192.168.100.200:8080",
            "order_87011234567_x",
            "token_budget: 50000",
            "Такси в сентябре: 2 поездки, 5000 ₸.",
        ] {
            assert!(matches!(redact(text), Cow::Borrowed(_)) || redact(text) == text, "{text}: {}", redact(text));
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn long_texts_of_bad_patience_take_no_time() {
        for unit in ["a", "1 ", "1", "eyJ", "a@", "a@b.", "KZ12 ", "+7", "key=", "sk-a"] {
            let text = unit.repeat(100_000 / unit.len());
            assert!(redact(&text).len() <= text.len() + 16, "{unit}");
        }
    }
}
