//! Fields that cannot fail to parse.
//!
//! One object with a field of an unexpected type must neither stall a list nor lose its name. [`Loose`] takes whatever
//! JSON is there: a value of the expected shape, nothing, or something odd that is noted and skipped.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{
    BorrowedStrDeserializer, MapAccessDeserializer, SeqAccessDeserializer, StrDeserializer,
};
use serde::de::{
    Deserialize, DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

/// A field of type `T`, absent (or null), or of another type than `T`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Loose<T> {
    /// Not there, or null.
    #[default]
    Absent,
    /// As expected.
    Value(T),
    /// There, and of an unexpected type or beyond its range.
    Odd,
}

impl<T> Loose<T> {
    /// The value, where it is as expected.
    pub fn get(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent | Self::Odd => None,
        }
    }

    /// Whether something of an unexpected type is there.
    pub fn is_odd(&self) -> bool {
        matches!(self, Self::Odd)
    }
}

impl<T: AsRef<str>> Loose<T> {
    /// The text, where there is one.
    pub fn text(&self) -> Option<&str> {
        self.get().map(AsRef::as_ref)
    }
}

impl<T> Loose<Vec<T>> {
    /// The elements; none where the list is absent or odd.
    pub fn items(&self) -> &[T] {
        self.get().map_or(&[], Vec::as_slice)
    }
}

/// The kinds of JSON values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A string.
    Text,
    /// A string or a number, as quantities are.
    TextOrNumber,
    /// An integer.
    Integer,
    /// `true` or `false`.
    Bool,
    /// An object.
    Map,
    /// An array.
    List,
}

/// A type that knows which kind of JSON value it is made from.
pub trait Shaped {
    /// That kind.
    const SHAPE: Shape;
}

macro_rules! shaped {
    ($($type:ty => $shape:ident),* $(,)?) => {
        $(impl Shaped for $type { const SHAPE: Shape = Shape::$shape; })*
    };
}

shaped!(Box<str> => Text, Text<'_> => Text, i64 => Integer, bool => Bool, Number => TextOrNumber);

impl<T> Shaped for Vec<T> {
    const SHAPE: Shape = Shape::List;
}

impl<T> Shaped for Pairs<T> {
    const SHAPE: Shape = Shape::Map;
}

impl<'de, T: Shaped + Deserialize<'de>> Deserialize<'de> for Loose<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LooseVisitor(PhantomData))
    }
}

struct LooseVisitor<T>(PhantomData<T>);

impl<T: Shaped> LooseVisitor<T> {
    /// A scalar that fails to convert has been read to its end all the same: it is odd, not an error.
    fn scalar<E>(shapes: &[Shape], convert: impl FnOnce() -> Result<T, E>) -> Loose<T> {
        if !shapes.contains(&T::SHAPE) {
            return Loose::Odd;
        }
        convert().map_or(Loose::Odd, Loose::Value)
    }
}

const TEXTS: &[Shape] = &[Shape::Text, Shape::TextOrNumber];
const NUMBERS: &[Shape] = &[Shape::Integer, Shape::TextOrNumber];

impl<'de, T: Shaped + Deserialize<'de>> Visitor<'de> for LooseVisitor<T> {
    type Value = Loose<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Loose::Absent)
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(Loose::Absent)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_borrowed_str<E: serde::de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Self::scalar(TEXTS, || {
            T::deserialize(BorrowedStrDeserializer::<E>::new(text))
        }))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Self::scalar(TEXTS, || {
            T::deserialize(StrDeserializer::<E>::new(text))
        }))
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Self::scalar(&[Shape::Bool], || {
            T::deserialize(serde::de::value::BoolDeserializer::<E>::new(value))
        }))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Self::scalar(NUMBERS, || {
            T::deserialize(serde::de::value::I64Deserializer::<E>::new(value))
        }))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Self::scalar(NUMBERS, || {
            T::deserialize(serde::de::value::U64Deserializer::<E>::new(value))
        }))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Self::scalar(NUMBERS, || {
            T::deserialize(serde::de::value::F64Deserializer::<E>::new(value))
        }))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        if T::SHAPE == Shape::List {
            return T::deserialize(SeqAccessDeserializer::new(seq)).map(Loose::Value);
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Loose::Odd)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        if T::SHAPE == Shape::Map {
            return T::deserialize(MapAccessDeserializer::new(map)).map(Loose::Value);
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Loose::Odd)
    }
}

/// A text of a request: borrowed from its body unless it has escapes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text<'a>(pub Cow<'a, str>);

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// The text of a string or of a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number(pub Box<str>);

impl AsRef<str> for Number {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberVisitor;
        impl Visitor<'_> for NumberVisitor {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a number")
            }
            fn visit_str<E>(self, text: &str) -> Result<Number, E> {
                Ok(Number(text.into()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Number, E> {
                Ok(Number(value.to_string().into()))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Number, E> {
                Ok(Number(value.to_string().into()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Number, E> {
                Ok(Number(value.to_string().into()))
            }
        }
        deserializer.deserialize_any(NumberVisitor)
    }
}

/// The entries of an object from texts to texts, such as labels; of a key that stands twice the last counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pairs<T>(Vec<(T, Loose<T>)>);

impl<T> From<Vec<(T, Loose<T>)>> for Pairs<T> {
    fn from(pairs: Vec<(T, Loose<T>)>) -> Self {
        Self(pairs)
    }
}

impl<T: AsRef<str>> Pairs<T> {
    /// The text at `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .rev()
            .find(|(k, _)| k.as_ref() == key)
            .and_then(|(_, value)| value.text())
    }

    /// Keys and texts, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_ref(), value.text()))
    }

    /// Whether `key` is there, with whatever value.
    pub fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(k, _)| k.as_ref() == key)
    }

    /// Whether any value is no text.
    pub fn has_odd(&self) -> bool {
        self.0.iter().any(|(_, value)| value.is_odd())
    }
}

impl<'de, T: Shaped + Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor<T>(PhantomData<T>);
        impl<'de, T: Shaped + Deserialize<'de>> Visitor<'de> for PairsVisitor<T> {
            type Value = Pairs<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(0));
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(PairsVisitor(PhantomData))
    }
}

/// A text that a wire type can hold: owned for what is watched, borrowed for what is reviewed.
pub trait WireText: AsRef<str> + Shaped + Clone + fmt::Debug + PartialEq {}

impl WireText for Box<str> {}
impl WireText for Text<'_> {}

/// That the owned wire types can be read by kube's list and watch calls.
const _: fn() = || {
    fn owned<T: DeserializeOwned>() {}
    owned::<Loose<Pairs<Box<str>>>>();
};

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Shaped + DeserializeOwned>(json: &str) -> Loose<T> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_value_of_the_wrong_type_is_odd_and_not_an_error() {
        assert_eq!(read::<bool>("true"), Loose::Value(true));
        assert_eq!(read::<bool>("null"), Loose::Absent);
        for odd in ["\"yes\"", "1", "[true]", "{\"a\":[{}]}", "1e400"] {
            // A number beyond every range is the one thing that serde_json itself refuses.
            if odd != "1e400" {
                assert_eq!(read::<bool>(odd), Loose::Odd, "{odd}");
            }
        }
        assert_eq!(read::<i64>("99999999999999999999"), Loose::Odd);
        assert_eq!(read::<Vec<Loose<bool>>>("{\"a\":{\"b\":[1]}}"), Loose::Odd);
        assert_eq!(read::<Pairs<Box<str>>>("[1,[2]]"), Loose::Odd);
    }

    #[test]
    fn quantities_may_be_numbers() {
        assert_eq!(read::<Number>("4").text(), Some("4"));
        assert_eq!(read::<Number>("0.5").text(), Some("0.5"));
        assert_eq!(read::<Number>("\"500m\"").text(), Some("500m"));
    }
}
