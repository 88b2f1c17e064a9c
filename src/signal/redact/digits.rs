//! Numbers that carry a check digit or a known shape: cards, IINs, phones, IBANs.
//!
//! It must never guess: a number without a proof of what it is stays as it is, phones aside,
//! which have none and are told by their length and lead.

use std::ops::Range;

/// Digits of the shortest number that is looked for: an American phone.
const SHORTEST: usize = 10;
/// Digits of the longest number that is looked for.
const LONGEST: usize = 19;

/// What may be a number: the digits of some groups, and how they are written.
#[derive(Default)]
struct Number<'a> {
    digits: Vec<u8>,
    /// Digits of each group.
    sizes: Vec<usize>,
    /// What stands between the groups.
    gaps: Vec<&'a str>,
    /// Whether a plus stands before.
    plus: bool,
    /// Whether an opening bracket stands before.
    paren: bool,
}

impl Number<'_> {
    /// What it is, if anything to hide.
    fn mark(&self) -> Option<&'static str> {
        if self.digits.len() < SHORTEST {
            return None;
        }
        if self.plus {
            return self.is_international().then_some("[phone]");
        }
        if is_card(&self.digits, &self.sizes) && self.is_alike() {
            Some("[card]")
        } else if is_iin(&self.digits) && matches!(self.sizes[..], [12] | [6, 6]) && !self.is_decimal() {
            Some("[iin]")
        } else if self.is_local_phone() {
            Some("[phone]")
        } else {
            None
        }
    }

    /// After a plus: Kazakhstan, Russia and North America have 11 digits, others 10 to 15.
    fn is_international(&self) -> bool {
        let long = match self.digits.first() {
            Some(7 | 1) => self.digits.len() == 11,
            Some(_) => (10..=15).contains(&self.digits.len()),
            None => false,
        };
        // Sums in a table have signs too, but no country apart from the rest.
        long && (self.sizes[0] <= 4 || self.is_plain()) && !self.is_decimal()
    }

    /// `8 701 123 45 67` and `7 701 ...` in any grouping that sets the lead apart or joins it to the
    /// code, and the American `555-123-4567`. With dots, slashes, tabs or line breaks only in the
    /// usual groupings: so are dates, versions, addresses and columns of sums written.
    fn is_local_phone(&self) -> bool {
        let (digits, sizes) = (&self.digits[..], &self.sizes[..]);
        let led = digits.len() == 11 && matches!(digits[0], 7 | 8) && digits[1] >= 3;
        if digits.len() > 11 {
            return false;
        }
        if self.is_plain() {
            let led = led && matches!(sizes[0], 1 | 4 | 11);
            return led || sizes == [3, 3, 4] || (self.paren && sizes[0] == 3 && digits.len() == 10);
        }
        let usual = match sizes {
            [1, rest @ ..] => {
                matches!(
                    rest,
                    [10] | [3, 7] | [3, 3, 4] | [3, 3, 2, 2] | [3, 2, 2, 3] | [3, 2, 3, 2] | [4, 6] | [4, 2, 2, 2]
                )
            }
            [4, rest @ ..] => matches!(rest, [7] | [3, 2, 2]),
            _ => false,
        };
        let american = sizes == [3, 3, 4] && self.gaps.iter().all(|gap| *gap == ".");
        (led && usual && !self.is_decimal()) || american
    }

    /// Whether its groups stand apart by nothing but spaces, dashes and brackets.
    fn is_plain(&self) -> bool {
        !self.gaps.iter().any(|gap| gap.contains(['.', '/', '_', '\t', '\n', '\r']))
    }

    /// Whether dots, slashes and low lines, where there are any, stand between all groups alike.
    fn is_alike(&self) -> bool {
        !self.gaps.iter().any(|gap| gap.contains(['.', '/', '_'])) || self.gaps.iter().all(|gap| *gap == self.gaps[0])
    }

    /// Whether one of the gaps, and no other, is a dot: then that is the point of a sum.
    fn is_decimal(&self) -> bool {
        self.gaps.iter().filter(|gap| gap.contains('.')).count() == 1
    }
}

/// Replaces the numbers in a run of digit groups (`8 (701) 123-45-67`).
pub(super) fn redact_digits(run: &str) -> String {
    let groups = groups(run);
    let mut out = String::with_capacity(run.len());
    let (mut at, mut first) = (0, 0);
    while first < groups.len() {
        if let Some((last, mark)) = longest_number(run, &groups, first) {
            out.push_str(run[at..groups[first].start].trim_end_matches(['+', '(']));
            out.push_str(mark);
            at = groups[last].end;
            first = last + 1;
        } else {
            first += 1;
        }
    }
    out.push_str(&run[at..]);
    out
}

/// Replaces a phone number in which a plus and spaces are written as in the query of a URL.
pub(super) fn redact_encoded(encoded: &str) -> String {
    let run = encoded.replacen("%2B", "+", 1).replacen("%2b", "+", 1).replace("%20", " ");
    let clean = redact_digits(&run);
    if clean == run { encoded.to_owned() } else { clean }
}

/// Replaces an IBAN, trying fewer and fewer groups so that a word after it does no harm.
pub(super) fn redact_iban(candidate: &str) -> String {
    let mut end = candidate.len();
    loop {
        let (head, tail) = candidate.split_at(end);
        if is_iban(head) {
            return format!("[iban]{tail}");
        }
        match head.rfind(' ') {
            Some(space) => end = space,
            None => break,
        }
    }
    // Two letters before a card number do not make it an IBAN, nor hide it.
    let (country, rest) = candidate.split_at(2);
    if rest.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        candidate.to_owned()
    } else {
        format!("{country}{}", redact_digits(rest))
    }
}

/// Where the digit groups of a run are.
fn groups(run: &str) -> Vec<Range<usize>> {
    let bytes = run.as_bytes();
    let mut groups: Vec<Range<usize>> = Vec::new();
    for (at, _) in bytes.iter().enumerate().filter(|(_, byte)| byte.is_ascii_digit()) {
        match groups.last_mut() {
            Some(group) if group.end == at => group.end = at + 1,
            _ => groups.push(at..at + 1),
        }
    }
    groups
}

/// The longest number that begins with the group `first`: its last group and its mark.
fn longest_number(run: &str, groups: &[Range<usize>], first: usize) -> Option<(usize, &'static str)> {
    let before = &run[..groups[first].start];
    if first > 0 && run[groups[first - 1].end..].starts_with('.') && before.ends_with('.') {
        // Decimals, or the middle of a version or an address.
        return None;
    }
    let plus = before.ends_with('+') || before.ends_with("+(");
    let (mut number, mut found) = (Number { plus, paren: before.ends_with('('), ..Number::default() }, None);
    for (last, group) in groups.iter().enumerate().skip(first) {
        if last > first {
            let gap = &run[groups[last - 1].end..group.start];
            if parts(gap) {
                break;
            }
            number.gaps.push(gap);
        }
        if number.digits.len() + group.len() > LONGEST {
            break;
        }
        number.digits.extend(run[group.clone()].bytes().map(|byte| byte - b'0'));
        number.sizes.push(group.len());
        if let Some(mark) = number.mark() {
            found = Some((last, mark));
        }
    }
    found
}

/// Whether what stands between two groups makes them two numbers: an empty line, or a line that
/// begins with a minus.
fn parts(gap: &str) -> bool {
    gap.matches('\n').count() > 1 || (gap.contains(['\n', '\t']) && gap.contains('-'))
}

/// A payment card: its lead and length, its usual grouping, and Luhn.
fn is_card(digits: &[u8], sizes: &[usize]) -> bool {
    let lead = match (digits.first(), digits.len()) {
        (Some(4), 13 | 16 | 19) | (Some(3), 14..=16) | (Some(2 | 5 | 8 | 9), 16) | (Some(6), 16..=19) => true,
        (Some(_), _) | (None, _) => false,
    };
    let grouped = matches!(sizes, [_] | [4, 4, 4, 4] | [4, 4, 4, 4, 3] | [4, 6, 5] | [4, 6, 4]);
    lead && grouped && luhn(digits)
}

fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| match (at % 2, u32::from(*digit)) {
            (0, digit) => digit,
            (_, digit) if digit > 4 => digit * 2 - 9,
            (_, digit) => digit * 2,
        })
        .sum();
    sum.is_multiple_of(10)
}

/// A Kazakh individual identification number: a birth date, a century, and a check digit modulo
/// 11 with a second row of weights where the first gives 10.
fn is_iin(digits: &[u8]) -> bool {
    let [_, _, m1, m2, d1, d2, century, rest @ ..] = digits else { return false };
    let (month, day) = (m1 * 10 + m2, d1 * 10 + d2);
    if rest.len() != 5 || !(1..=12).contains(&month) || !(1..=31).contains(&day) || *century > 6 {
        return false;
    }
    let weigh = |shift: u32| -> u32 {
        digits[..11].iter().zip(0u32..).map(|(digit, at)| u32::from(*digit) * ((at + shift) % 11 + 1)).sum::<u32>() % 11
    };
    let check = match weigh(0) {
        10 => weigh(2),
        check => check,
    };
    check == u32::from(digits[11])
}

/// ISO 13616: the first four characters go to the end, letters count from 10, the rest of the
/// division by 97 is 1.
fn is_iban(text: &str) -> bool {
    let compact: Vec<u8> = text.bytes().filter(|byte| *byte != b' ').collect();
    if !(15..=34).contains(&compact.len()) {
        return false;
    }
    let (country, account) = compact.split_at(4);
    let rest = account.iter().chain(country).try_fold(0u32, |rest, byte| {
        let value = char::from(*byte).to_digit(36)?;
        Some((rest * if value > 9 { 100 } else { 10 } + value) % 97)
    });
    rest == Some(1)
}
