//! Structs and enums of the language, each declared once.

/// Declares a struct of the language: the struct, how it is decoded, and its schema.
///
/// Each field says its type, whether it is `required`, `optional` (an `Option`) or
/// `defaulted` (its type's default when left out), and the [`Decode`] by which it is
/// written. The struct gets a field `place` besides. A name with an underscore at
/// its end is written without it.
///
/// Behind the struct may stand, in this order: `unsupported`, fields of the language
/// that this version does not have; `foreign`, fields that are likely to be tried,
/// with the remedy; `check`, a function that sees which fields were given.
///
/// [`Decode`]: super::decode::Decode
macro_rules! record {
    (
        $(#[doc = $doc:literal])*
        pub struct $name:ident {
            $(
                $(#[doc = $field_doc:literal])*
                $field:ident: $ty:ty = $mode:ident $codec:ty,
            )*
        }
        $(unsupported: [$($unsupported:literal),* $(,)?];)?
        $(foreign: [$($foreign:literal => $remedy:expr),* $(,)?];)?
        $(check: $check:path;)?
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            /// Where it stands.
            pub place: $crate::config::fault::Place,
            $(
                $(#[doc = $field_doc])*
                pub $field: $ty,
            )*
        }

        impl $name {
            const RECORD: $crate::config::decode::Record = $crate::config::decode::Record {
                fields: &[$((stringify!($field), record!(@is_required $mode))),*],
                unsupported: &[$($($unsupported),*)?],
                foreign: &[$($(($foreign, $remedy)),*)?],
            };
        }

        impl $crate::config::decode::Decode for $name {
            type Value = Self;

            fn decode(
                node: &$crate::config::yaml::Node,
                cx: &mut $crate::config::decode::Context,
            ) -> Option<Self> {
                let place = cx.place(node);
                let fields = $crate::config::decode::Fields::read(node, &Self::RECORD, cx)?;
                $($check(&fields, node, cx);)?
                // All are decoded before the first failure returns, so that all are reported.
                $(let $field = fields.$mode::<$codec>(stringify!($field), cx);)*
                Some(Self { place, $($field: $field?),* })
            }

            fn schema(defs: &mut $crate::config::schema::Defs) -> serde_json::Value {
                defs.define(stringify!($name), |defs| {
                    let fields = vec![$(
                        $crate::config::schema::Field {
                            name: stringify!($field),
                            required: record!(@is_required $mode),
                            doc: concat!($($field_doc),*),
                            schema: <$codec as $crate::config::decode::Decode>::schema(defs),
                        },
                    )*];
                    $crate::config::schema::object(concat!($($doc),*), fields)
                })
            }

            fn expected() -> String {
                Self::RECORD.expected()
            }
        }
    };
    (@is_required required) => { true };
    (@is_required $mode:ident) => { false };
}

/// Declares an enum that is written as one of a few words.
///
/// Its value comes with its place. Behind the enum may stand `unsupported`: words of
/// the language that this version does not have.
macro_rules! words {
    (
        $(#[doc = $doc:literal])*
        pub enum $name:ident {
            $(
                $(#[doc = $variant_doc:literal])*
                $variant:ident = $word:literal,
            )*
        }
        $(unsupported: [$($unsupported:literal),* $(,)?];)?
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $(
                $(#[doc = $variant_doc])*
                $variant,
            )*
        }

        impl $name {
            /// All of them, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The word it is written as.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl $crate::config::decode::Decode for $name {
            type Value = $crate::config::fault::Spanned<Self>;

            fn decode(
                node: &$crate::config::yaml::Node,
                cx: &mut $crate::config::decode::Context,
            ) -> Option<Self::Value> {
                const WORDS: &[&str] = &[$($word),*];
                const UNSUPPORTED: &[&str] = &[$($($unsupported),*)?];
                let index = $crate::config::scalar::word(node, cx, WORDS, UNSUPPORTED)?;
                let value = *Self::ALL.get(index)?;
                Some(cx.spanned(node, value))
            }

            fn schema(_: &mut $crate::config::schema::Defs) -> serde_json::Value {
                serde_json::json!({ "enum": [$($word),*] })
            }

            fn expected() -> String {
                $crate::config::fault::one_of(&[$($word),*])
            }
        }
    };
}

pub(crate) use {record, words};
