//! CPU quantities, as `k8s.io/apimachinery/pkg/api/resource` parses them.

/// Thousandths of a CPU core.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millicores(pub u64);

impl Millicores {
    /// The most that one node counts for: 10^12 millicores, a billion cores.
    ///
    /// Above every machine, and low enough that the exact arithmetic over a cluster never overflows.
    pub const MOST: Self = Self(1_000_000_000_000);
}

/// Why a text is no quantity; the words are those of apimachinery's three errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Characters where none are allowed, or nothing at all.
    #[error("it is not a number with an optional suffix")]
    Format,
    /// The part before the suffix has no digits.
    #[error("its numeric part does not parse")]
    Numeric,
    /// The suffix is none of n u m k M G T P E Ki Mi Gi Ti Pi Ei, `e` or `E` with an integer.
    #[error("its suffix is unknown")]
    Suffix,
}

/// The base and exponent that a suffix stands for.
#[derive(Clone, Copy)]
enum Scale {
    Decimal(i32),
    Binary(u32),
}

/// Parses a CPU quantity into whole millicores, rounded up, at most [`Millicores::MOST`]; zero and less give zero.
///
/// Follows `Quantity.UnmarshalJSON` of apimachinery 0.37, which trims white space, but for control characters: those
/// reach it as JSON escapes, which it does not undo.
///
/// # Errors
/// Where `ParseQuantity` refuses the text.
pub fn parse_cpu(text: &str) -> Result<Millicores, QuantityError> {
    let text = text.trim_matches(|c: char| c.is_whitespace() && c >= ' ');
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let parts = split(text)?;
    let scale = interpret_suffix(parts.suffix)?;
    if !parts.has_digits && !fits_fast_path(scale) {
        return Err(QuantityError::Numeric);
    }
    if parts.negative {
        return Ok(Millicores(0));
    }
    let mut digits: Vec<u8> = parts
        .whole
        .bytes()
        .chain(parts.fraction.bytes())
        .map(|b| b - b'0')
        .collect();
    let fraction = signed(parts.fraction.len());
    let exponent = match scale {
        Scale::Decimal(exponent) => i64::from(exponent),
        Scale::Binary(doublings) => {
            (0..doublings).for_each(|_| double(&mut digits));
            0
        }
    };
    Ok(Millicores(round_up(&digits, exponent - fraction + MILLI)))
}

/// Decimal places of a millicore.
const MILLI: i64 = 3;

fn signed(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

struct Parts<'a> {
    negative: bool,
    /// Digits before the point without leading zeros.
    whole: &'a str,
    /// Digits behind the point.
    fraction: &'a str,
    suffix: &'a str,
    /// Whether the numeric part has any digit, leading zeros included.
    has_digits: bool,
}

fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    let (negative, unsigned) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (all_whole, rest) = take_digits(unsigned);
    let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), take_digits);
    let letters = suffix
        .bytes()
        .take_while(|b| b"eEinumkKMGTP".contains(b))
        .count();
    let exponent = &suffix[letters..];
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    if !exponent.bytes().all(|b| b.is_ascii_digit()) {
        return Err(QuantityError::Format);
    }
    Ok(Parts {
        negative,
        whole: all_whole.trim_start_matches('0'),
        fraction,
        suffix,
        // A lone sign is read as zero.
        has_digits: !all_whole.is_empty() || !fraction.is_empty() || unsigned.is_empty(),
    })
}

fn take_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn interpret_suffix(suffix: &str) -> Result<Scale, QuantityError> {
    Ok(match suffix {
        "" => Scale::Decimal(0),
        "n" => Scale::Decimal(-9),
        "u" => Scale::Decimal(-6),
        "m" => Scale::Decimal(-3),
        "k" => Scale::Decimal(3),
        "M" => Scale::Decimal(6),
        "G" => Scale::Decimal(9),
        "T" => Scale::Decimal(12),
        "P" => Scale::Decimal(15),
        "E" => Scale::Decimal(18),
        "Ki" => Scale::Binary(10),
        "Mi" => Scale::Binary(20),
        "Gi" => Scale::Binary(30),
        "Ti" => Scale::Binary(40),
        "Pi" => Scale::Binary(50),
        "Ei" => Scale::Binary(60),
        _ => {
            let exponent = suffix
                .strip_prefix(['e', 'E'])
                .ok_or(QuantityError::Suffix)?;
            let exponent: i64 = exponent.parse().map_err(|_| QuantityError::Suffix)?;
            // Kubernetes narrows the exponent to 32 bits without a look.
            #[expect(clippy::cast_possible_truncation)]
            Scale::Decimal(exponent as i32)
        }
    })
}

/// Whether apimachinery takes its path for small numbers, which reads one without digits as zero.
fn fits_fast_path(scale: Scale) -> bool {
    const NANO: i32 = -9;
    match scale {
        Scale::Decimal(exponent) => exponent >= NANO,
        Scale::Binary(doublings) => doublings < 50,
    }
}

/// Doubles a number that is written as decimal digits.
fn double(digits: &mut Vec<u8>) {
    let mut carry = 0;
    for digit in digits.iter_mut().rev() {
        let doubled = *digit * 2 + carry;
        *digit = doubled % 10;
        carry = doubled / 10;
    }
    if carry > 0 {
        digits.insert(0, carry);
    }
}

/// As many digits as the cap has.
const CAP_DIGITS: usize = 13;

/// `digits × 10^exponent`, rounded up and capped.
fn round_up(digits: &[u8], exponent: i64) -> u64 {
    let Some(first) = digits.iter().position(|&d| d != 0) else {
        return 0;
    };
    let digits = &digits[first..];
    let whole_digits = signed(digits.len()).saturating_add(exponent);
    if whole_digits <= 0 {
        return 1;
    }
    let whole_digits = usize::try_from(whole_digits).unwrap_or(usize::MAX);
    if whole_digits > CAP_DIGITS {
        return Millicores::MOST.0;
    }
    let whole = (0..whole_digits).fold(0, |sum, i| {
        sum * 10 + u64::from(digits.get(i).copied().unwrap_or(0))
    });
    let rest = digits
        .get(whole_digits..)
        .unwrap_or(&[])
        .iter()
        .any(|&d| d != 0);
    (whole + u64::from(rest)).min(Millicores::MOST.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milli(text: &str) -> Option<u64> {
        parse_cpu(text).ok().map(|m| m.0)
    }

    #[test]
    fn quantities_of_the_design_parse_as_stated() {
        assert_eq!(milli("4"), Some(4000));
        assert_eq!(milli("3920m"), Some(3920));
        assert_eq!(milli("0.5"), Some(500));
        assert_eq!(milli("1E3"), Some(1_000_000));
        assert_eq!(milli("2k"), Some(2_000_000));
        assert_eq!(milli("5."), Some(5000));
        assert_eq!(milli("100u"), Some(1));
        assert_eq!(milli("1Ei"), Some(Millicores::MOST.0));
    }

    #[test]
    fn what_kubernetes_refuses_is_refused() {
        assert_eq!(parse_cpu("1e3m"), Err(QuantityError::Format));
        assert_eq!(parse_cpu("12e"), Err(QuantityError::Suffix));
        assert_eq!(parse_cpu("1m5"), Err(QuantityError::Suffix));
        assert_eq!(parse_cpu("four"), Err(QuantityError::Format));
        assert_eq!(parse_cpu(""), Err(QuantityError::Format));
        assert_eq!(parse_cpu("e-30"), Err(QuantityError::Numeric));
    }

    #[test]
    fn a_fraction_of_a_millicore_counts_as_one() {
        assert_eq!(milli("0.0000000001"), Some(1));
        assert_eq!(milli("1.0000001"), Some(1001));
        assert_eq!(milli("-1"), Some(0));
    }
}
