//! Algorithms that tokens may be signed with: those of a key pair. `none` and the HMACs are not among them, so
//! no list can allow them.

use std::fmt;

macro_rules! algorithms {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)+) => {
        /// An algorithm, by its name in `alg` (RFC 7518, RFC 8037).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Algorithm { $($(#[$doc])* $variant,)+ }

        impl Algorithm {
            /// Every one.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Name of the algorithm, as in a token's header.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}

algorithms! {
    /// RSA PKCS #1 v1.5 with SHA-256.
    Rs256 = "RS256";
    /// The same with SHA-384.
    Rs384 = "RS384";
    /// The same with SHA-512.
    Rs512 = "RS512";
    /// RSA PSS with SHA-256.
    Ps256 = "PS256";
    /// The same with SHA-384.
    Ps384 = "PS384";
    /// The same with SHA-512.
    Ps512 = "PS512";
    /// ECDSA on P-256 with SHA-256.
    Es256 = "ES256";
    /// ECDSA on P-384 with SHA-384.
    Es384 = "ES384";
    /// Ed25519.
    EdDsa = "EdDSA";
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_unsigned_tokens_nor_shared_secrets_are_among_them() {
        for one in Algorithm::ALL {
            let name = one.as_str();
            assert!(!name.starts_with("HS") && name != "none", "{name}");
        }
    }
}
