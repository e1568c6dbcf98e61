//! The nesting depth of JSON text, measured in one pass, so that the check costs less than the decoder.

/// Return true if the arrays and objects of *text* nest deeper than *levels*; brackets in strings do not count.
///
/// The text need not be JSON: a surplus closing bracket is ignored, and the decoder reports it. O(n); the scan ends at
/// the first bracket that is too deep.
#[must_use]
pub fn nests_deeper(text: &[u8], levels: usize) -> bool {
    let mut depth = 0_usize;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                if depth > levels {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => skip_string(&mut bytes),
            _ => {}
        }
    }
    false
}

/// Move past the end of a string whose opening quote was read.
fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::nests_deeper;

    #[test]
    fn counts_levels_and_not_brackets() {
        assert!(!nests_deeper(b"", 0));
        assert!(!nests_deeper(b"1", 0));
        assert!(nests_deeper(b"[]", 0));
        assert!(!nests_deeper(b"[[],{},[]]", 2));
        assert!(nests_deeper(b"[{\"a\":[]}]", 2));
        assert!(!nests_deeper(b"]]]][{}]", 2));
    }

    #[test]
    fn strings_hide_brackets() {
        assert!(!nests_deeper(br#"["[[[","\"[[","\\"]"#, 1));
        assert!(nests_deeper(br#"["\\",["#, 1));
        assert!(!nests_deeper(br#"["[[[\"#, 1));
    }
}
