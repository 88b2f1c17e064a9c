//! The redactor: replaces what looks like personal data or a secret in free text by a mark.
//!
//! One pass of a linear-time expression finds candidates; numbers count only where their check
//! digits agree. Identifiers of ours, dates and amounts stay. It must never know where the text
//! goes, and it is a net, not a wall: text of people belongs in no signal in the first place.

mod digits;
mod leaves;
mod structure;

use std::{borrow::Cow, sync::LazyLock};

use regex::{Captures, Regex};

pub use self::{
    leaves::{redact_json, redact_text},
    structure::structure,
};

/// The candidates, in the order in which they are tried at one place of the text. `PEM`, `IS`
/// and `HOST` stand for the parts below.
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
| (?P<pem>PEM)
| ://(?P<userinfo>[^\s:/?\#@"'<>]{0,256}:[^\s/?\#"'<>]{1,256})@
| (?P<jwt>(?-u:\b)eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*)
| (?i:(?-u:\b)(?:bearer|basic)[\ \t]{1,9})(?P<token>[A-Za-z0-9._~+/=-]{8,})
| (?i:(?:(?:api|access|private|secret)[_\ -]?(?:access[_\ -]?)?keys?|secrets?|passwords?|passwd|passphrase
    |(?:access|refresh|auth|session|id|bot|api)[_\ -]?token|пароль)IS)
    (?:["']?(?P<secret_pem>PEM)|"(?P<secret_double>[^"\r\n]+)|'(?P<secret_single>[^'\r\n]+)|(?P<secret>[^\s"',;&]{4,}))
| (?i:(?:(?-u:\b)token|токен)IS["']?)(?P<secret_token>[^\s"',;&]{8,})
| (?P<key>
      (?-u:\b)(?:sk|pk|rk|gbx|gh[pousr]|github_pat|glpat|xox[abeprs]|hf|npm)[_-][A-Za-z0-9_-]{16,}
    | (?-u:\b)whsec_[A-Za-z0-9+/=_-]{16,}
    | (?-u:\b)(?:AKIA|ASIA)[0-9A-Z]{16}(?-u:\b)(?:[\s:,;]{1,3}[A-Za-z0-9/+]{40}(?-u:\b))?
    | (?-u:\b)AIza[A-Za-z0-9_-]{35}
    | (?-u:\b)[0-9]{8,10}:[A-Za-z0-9_-]{35}(?-u:\b)
  )
| (?P<email>[0-9A-Za-zЀ-ӿ._%+-]{1,64}HOST)
| (?P<iban>(?-u:\b)[A-Za-z]{2}[0-9]{2}(?:[A-Za-z0-9]{11,30}|(?:\ [A-Z0-9]{4}){2,7}(?:\ [A-Z0-9]{1,3})?)(?-u:\b))
| (?P<hex>(?-u:\b)(?:[0-9a-fA-F]{40}|[0-9a-fA-F]{24}|[0-9a-fA-F]{16})(?-u:\b))
| (?P<encoded>%2[Bb][0-9](?:(?:%20|[\ ().-]){0,2}[0-9]){9,14}(?-u:\b))
| [A-Za-z_](?P<glued>[78][\ (-]{0,2}[3-9][0-9]{2}[\ )-]{0,2}[0-9]{3}[\ -]?[0-9]{2}[\ -]?[0-9]{2})(?:(?-u:\b)|_)
| (?P<digits>\+?\(?(?-u:\b)[0-9]+(?:[\s()./_\u{2010}-\u{2015}\u{2212}-]{1,3}[0-9]+)*(?:(?-u:\b)|_))
    (?P<at>[0-9A-Za-zЀ-ӿ._%+-]{0,64}HOST)?
"#;

/// An e-mail address from its at sign on.
const HOST: &str = r"(?:@|%40)[0-9A-Za-zЀ-ӿ-]+(?:\.[0-9A-Za-zЀ-ӿ-]+)+";

/// A private key up to its end, or to that of the text.
const PEM: &str =
    r"-----BEGIN\ [A-Z\ ]{0,40}PRIVATE\ KEY[A-Z\ ]{0,10}-----(?:[^-]|-[^-])*(?:-----END\ [A-Z\ ]{0,50}-----)?";

/// What stands between the name of a secret and its value.
const IS: &str = r#"\\?["']?\s{0,9}(?::=|=>|[:=])\s{0,9}\\?"#;

/// What is replaced in a candidate, and by which mark.
const MARKS: [(&str, &str); 11] = [
    ("pem", "[key]"),
    ("userinfo", "[key]"),
    ("jwt", "[jwt]"),
    ("token", "[token]"),
    ("secret_pem", "[key]"),
    ("secret_double", "[key]"),
    ("secret_single", "[key]"),
    ("secret", "[key]"),
    ("secret_token", "[key]"),
    ("key", "[key]"),
    ("email", "[email]"),
];

static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = CANDIDATES.replace("PEM", PEM).replace("IS", IS).replace("HOST", HOST);
    Regex::new(&pattern).expect("the pattern is a constant")
});

/// The text with e-mail addresses, phone and card numbers, IBANs, Kazakh IINs, JWTs, bearer
/// tokens, passwords and keys replaced by `[email]`, `[phone]`, `[card]`, `[iban]`, `[iin]`,
/// `[jwt]`, `[token]` and `[key]`. Borrowed where nothing had to go.
pub fn redact(text: &str) -> Cow<'_, str> {
    PATTERN.replace_all(text, |found: &Captures<'_>| replacement(text, found))
}

fn replacement(text: &str, found: &Captures<'_>) -> String {
    let whole = found.get(0).expect("group 0 is the match");
    let marked = |part: regex::Match<'_>, mark: &str| {
        format!("{}{mark}{}", &text[whole.start()..part.start()], &text[part.end()..whole.end()])
    };
    let known = MARKS.iter().find_map(|(name, mark)| Some(marked(found.name(name)?, mark)));
    if let Some(known) = known {
        return known;
    }
    let candidate = whole.as_str();
    if let Some(phone) = found.name("glued") {
        marked(phone, "[phone]")
    } else if found.name("iban").is_some() {
        digits::redact_iban(candidate)
    } else if found.name("encoded").is_some() {
        digits::redact_encoded(candidate)
    } else if found.name("at").is_some() {
        redact_address(found.name("digits").map_or("", |run| run.as_str()))
    } else if is_number(candidate, found) && !is_fraction(&text[..whole.start()], candidate) {
        digits::redact_digits(candidate)
    } else {
        candidate.to_owned()
    }
}

/// Digits of which the last belong to an e-mail address that goes on behind them.
fn redact_address(run: &str) -> String {
    let clean = digits::redact_digits(run);
    format!("{}[email]", clean.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_'))
}

/// Whether a candidate is one of digits: what has the length of an id and a letter is an id.
fn is_number(candidate: &str, found: &Captures<'_>) -> bool {
    found.name("digits").is_some()
        || (found.name("hex").is_some() && candidate.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether what stands before makes the digits the decimals of a number.
fn is_fraction(before: &str, candidate: &str) -> bool {
    let mut back = before.chars().rev();
    candidate.starts_with(|c: char| c.is_ascii_digit())
        && matches!(back.next(), Some('.' | ','))
        && back.next().is_some_and(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEM_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";

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
            ("key gbx_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8.", "key [key]."),
            ("whsec_AAECAwQFBgcICQoLDA0O/+8QERITFBUWFxg=", "[key]"),
            ("postgres://bank:s3cr:et@db.local:5432/bank", "postgres://[key]@db.local:5432/bank"),
            ("see http://ivan:p@ss@10.0.0.1:8080/x?y=1", "see http://[key]@10.0.0.1:8080/x?y=1"),
            ("redis://:hunter2@cache", "redis://[key]@cache"),
            ("a\n-----BEGIN PRIVATE KEY-----\nMIIE+v/=\n-----END PRIVATE KEY-----\nb", "a\n[key]\nb"),
            ("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIE", "[key]"),
            (
                "private_key: \"-----BEGIN EC PRIVATE KEY-----\\nMI\\n-----END EC PRIVATE KEY-----\"",
                "private_key: \"[key]\"",
            ),
            ("token=abcdefgh", "token=[key]"),
            ("token: 'abcdefgh'", "token: '[key]'"),
            ("токен: abcdefgh", "токен: [key]"),
            ("access_token = abcdefgh, x", "access_token = [key], x"),
            ("password: 12345", "password: [key]"),
            ("DB_PASSWORD=\"two words\" x", "DB_PASSWORD=\"[key]\" x"),
            ("password='it is \"x\"'", "password='[key]'"),
            ("Result: {\\\"password\\\": \\\"hunter2\", 1", "Result: {\\\"password\\\": \\\"[key]\", 1"),
            ("secret=abcd", "secret=[key]"),
            ("API key: abcd1234", "API key: [key]"),
            ("Пароль: 1234", "Пароль: [key]"),
            ("мой пароль: hunter2, да", "мой пароль: [key], да"),
            ("aws_secret_access_key=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "aws_secret_access_key=[key]"),
            ("AKIAIOSFODNN7EXAMPLE wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "[key]"),
            ("bot 110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1", "bot [key]"),
            ("?mail=ivan%40mail.kz&x=1", "?mail=[email]&x=1"),
            ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl end", "jwt [jwt] end"),
        ] {
            assert_eq!(redact(text), expected, "{text}");
        }
    }

    #[test]
    fn numbers_in_any_dress() {
        for (text, expected) in [
            ("+7.701.123.45.67", "[phone]"),
            ("+7 (701) 123.45.67", "[phone]"),
            ("8.701.123.45.67.", "[phone]."),
            ("8 (701) 123.45.67", "[phone]"),
            ("8/701/123/45/67", "[phone]"),
            ("415.555.2671", "[phone]"),
            ("8\u{2013}701\u{2013}123\u{2013}45\u{2013}67", "[phone]"),
            ("8\u{2011}701\u{2011}1234567", "[phone]"),
            ("8\u{a0}701\u{a0}123\u{a0}45\u{a0}67", "[phone]"),
            ("8\t701\t123\t45\t67", "[phone]"),
            ("тел. 8 701 123\n45 67", "тел. [phone]"),
            ("+7\r\n701\r\n1234567", "[phone]"),
            ("+44\t20\t7946\t0958", "[phone]"),
            ("tel87011234567", "tel[phone]"),
            ("tel+77011234567", "tel[phone]"),
            ("T8(701)123-45-67", "T[phone]"),
            ("_87011234567_", "_[phone]_"),
            ("87011234567_x", "[phone]_x"),
            ("order_87011234567_x", "order_[phone]_x"),
            ("ghost_87011234567", "ghost_[phone]"),
            ("87011234567_87021234567", "[phone]_[phone]"),
            ("?tel=%2B77011234567&a=1", "?tel=[phone]&a=1"),
            ("%2b7%20701%20123%2045%2067", "[phone]"),
            ("%2B442079460958", "[phone]"),
            ("4111.1111.1111.1111", "[card]"),
            ("4111/1111/1111/1111", "[card]"),
            ("4111_1111_1111_1111", "[card]"),
            ("card 4111 1111\n1111 1111 12/28", "card [card] 12/28"),
            ("3782\t822463\t10005", "[card]"),
            ("1. 87011234567\n2. 4111111111111111\n", "1. [phone]\n2. [card]\n"),
            ("client 5\n12345@mail.kz", "client 5\n[email]"),
            ("5\n87.ivan@mail.kz 5 87_x@mail.kz", "5\n[email] 5 [email]"),
            ("8 701 123 45 67@mail.kz", "[phone][email]"),
            ("1.+77011234567", "1.[phone]"),
            ("30.11.2026\n87011234567", "30.11.2026\n[phone]"),
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
            "token_budget: 50000",
            "max_token: 50000000, token: 12400, tokens: 123456789",
            "next_token=abcdefghijkl",
            "5000 ₸",
            "+250 000 000.00 ₸",
            "8 500 000.50 12%",
            "8 500 000.1234",
            "8500\n1200\n300",
            "+50000\n-30000\n+500\n-300\n-1000",
            "+50000\n30000",
            "100\n200\n3000",
            "7/30/2026 1430",
            "30.11.2026 12:00",
            "2026-11-30 12:00",
            "30/11/2026",
            "10.0.0.1:8080",
            "8.130.120.11 22/tcp",
            "7.255.255.255\n3",
            "10.0.0.0/8",
            "1.20.300-rc.4",
            "100.87011234567",
            "4111.1111 1111.1111",
            "4111.1111.1111.1112",
            "900101.300017",
            "abcde87011234567",
            "00f067aa0ba902b7",
            "abcdef000102030405060708090a87011234567f",
            "x870112345678",
            "http://localhost:8080/a?b=c",
            "http://host:8080/path?mail=x@y",
            "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
            "gbx_secret",
            "the secretary: Ivanova; a password is asked for",
            "Такси в сентябре: 2 поездки, 5000 ₸.",
        ] {
            assert!(matches!(redact(text), Cow::Borrowed(_)) || redact(text) == text, "{text}: {}", redact(text));
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn long_texts_of_bad_patience_take_no_time() {
        for unit in [
            "a",
            "1 ",
            "1",
            "eyJ",
            "a@",
            "a@b.",
            "KZ12 ",
            "+7",
            "key=",
            "sk-a",
            "8.",
            "8\n",
            "4111/",
            "_8",
            "%2B7",
            "://a:",
            "token=",
            "пароль:",
            PEM_BEGIN,
        ] {
            let text = unit.repeat(50_000 / unit.len());
            assert!(redact(&text).len() <= text.len() + 16, "{unit}");
        }
    }
}
