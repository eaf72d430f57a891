/// The key in a file that `whimbrel key new` made: one line, a word and 64 hexadecimal digits.
fn key_file(path: &str) -> Result<Identity, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(path)?;
    let digits = text.trim_end().strip_prefix("whimbrel-secret-key ").unwrap_or_default();
    if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(format!("{path} is not a key file of `whimbrel key new`").into());
    }
    let mut secret = [0; 32];
    for (at, byte) in secret.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16)?;
    }
    Ok(Identity::from_secret(secret))
}
