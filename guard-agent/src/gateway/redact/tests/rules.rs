//! Each rule: what it finds, exactly, and what comes near and stays.

use super::*;
use crate::gateway::redact::RuleId::*;

/// `«…»` marks what a rule must find in a text.
fn finds(rule: RuleId, marked: &str) {
    let (before, rest) = marked.split_once('«').unwrap();
    let (secret, after) = rest.split_once('»').unwrap();
    let range = before.len()..before.len() + secret.len();
    let text = format!("{before}{secret}{after}");
    assert_eq!(Rules::default().find(&text), [Match { range, rule }], "{text}");
}

fn nothing(text: &str) {
    assert_eq!(Rules::default().find(text), [], "{text}");
}

#[test]
fn a_key_in_a_sentence_is_masked_and_the_sentence_stays() {
    let key = format!("ghp{}{}", "_", noise(36));
    assert_eq!(
        masked(&format!("use {key}, please")),
        "use [redacted:github-token], please"
    );
    assert_eq!(masked(&format!("密钥{key}。")), "密钥[redacted:github-token]。");
    nothing(&format!("use {}", &key[..39]));
}

#[test]
fn private_keys() {
    let begin = concat!("-----BEGIN RSA PRIVATE", " KEY-----");
    let end = concat!("-----END RSA PRIVATE", " KEY-----");
    let body = noise(64);
    finds(
        PrivateKey,
        &format!("key:\n«{begin}\n{body}\n{body}\n{end}»\nafter"),
    );
    finds(PrivateKey, &format!(r"«{begin}\n{body}\n{end}»"));
    finds(PrivateKey, &format!("cut «{begin}\n{body}\n{body}»"));
    finds(
        PrivateKey,
        &format!("«{begin}\n{body}\n»-----BEGIN CERTIFICATE-----"),
    );
    nothing(&format!("a file that begins with {begin} is a key"));
    nothing(&format!(
        "-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----"
    ));
    nothing(&format!(
        "-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----"
    ));
}

#[test]
fn web_tokens() {
    let (head, body) = (noise(30), noise(40));
    finds(Jwt, &format!("sent «eyJ{head}.eyJ{body}.{head}»."));
    finds(Jwt, &format!("unsigned «eyJ{head}.eyJ{body}.»"));
    nothing(&format!("eyJ{head}.{body}"));
}

#[test]
fn passwords_in_addresses() {
    finds(UrlPassword, "postgres://app:«s3cret!»@db.internal:5432/shop");
    finds(UrlPassword, "redis://:«p@ss»@localhost");
    nothing("https://example.org:8443/a@b");
    nothing("postgres://app:${DB_PASSWORD}@db");
    nothing("ssh://git@example.internal/x");
}

#[test]
fn schemes_of_headers() {
    finds(
        Authorization,
        "curl -H 'Authorization: Bearer «abcdefgh12345678.x-y»'",
    );
    finds(Authorization, "BASIC «dXNlcjpodW50ZXIy»");
    nothing("Bearer authentication is required");
    nothing("basic knowledge of bearer tokens");
    nothing("Basic bm8gcGFzc3dvcmQgaGVyZQ");
}

#[test]
fn cards() {
    finds(Card, "paid with «4111111111111111».");
    finds(Card, "Visa «4111 1111 1111 1111», 12/29");
    finds(Card, "«5555-5555-5555-4444»");
    finds(Card, "«2223003122003222»");
    finds(Card, "Amex «3782 822463 10005»");
    finds(Card, "Amex «378282246310005»");
    finds(Card, "Diners «3056 930902 5904»");
    finds(Card, "«6011111111111117»");
    finds(Card, "«3530111333300000»");
    finds(Card, "«4111 1111 1111 1111 110»");
    finds(Card, "«6200000000000000000»");
    finds(Card, "order 2024 «4111 1111 1111 1111»");
    // Luhn fails.
    nothing("4111111111111112");
    nothing("3782 822463 10006");
    // Luhn holds, and no issuer has it, or not so.
    nothing("4111111111111111110");
    nothing("1111111111111117");
    nothing("9999999999999995");
    // A part of something longer.
    nothing("0.4111111111111111");
    nothing("x4111111111111111");
    nothing("4111-1111-1111-1111-0000");
}

#[test]
fn ibans() {
    finds(Iban, "to «DE89370400440532013000» please");
    finds(Iban, "to «DE89 3704 0044 0532 0130 00» please");
    finds(Iban, "«GB82 WEST 1234 5698 7654 32»");
    finds(Iban, "«fr1420041010050500013m02606»");
    nothing("DE88370400440532013000");
    nothing("DE89 3704 0044 0532 0130 01");
    nothing("XX89370400440532013000");
    nothing("DE8937040044053201300");
}

#[test]
fn addresses_of_mail() {
    finds(Email, "mail «alice.b+c@mail.example.org».");
    finds(Email, "```\nauthor = <«ann@example.com»>\n```");
    finds(Email, "«bob@163.com»");
    finds(Email, "«ann@example.org»-4111");
    finds(Email, "«ann@example.org».123.x");
    nothing("npm i lodash@4.17.21 @types/node x@1.0.0-beta.rc");
    nothing("icon@2x.png, getty@tty1.service, user@host");
    nothing("git clone git@github.com:owner/name.git");
}

#[test]
fn telephones() {
    finds(Phone, "call «+49 151 23456789» now");
    finds(Phone, "«+1 (415) 555-2671»");
    finds(Phone, "«+442071838750»");
    finds(Phone, "«(415) 555-2671»");
    finds(Phone, "call «415-555-2671».");
    nothing("2024-11-30T15:16:20+0100");
    nothing("a +1 b, 3+12345678, +999 12345678");
    nothing("115-555-2671 and 415-555-26711");
    nothing("192.168.100.200");
}

#[test]
fn national_numbers_in_their_own_form() {
    finds(NationalId, "DNI «12345678Z»");
    finds(NationalId, "NIE «X1234567L»");
    finds(NationalId, "«RSSMRA85T10A562S»");
    finds(NationalId, "«1 85 05 78 006 084 91»");
    finds(NationalId, "«529.982.247-25»");
    finds(NationalId, "«850709-9805»");
    finds(NationalId, "«010190 10046»");
    finds(NationalId, "«19850709-9805»");
    finds(NationalId, "«86 095 742 719»");
    finds(NationalId, "«11010519491231002X»");
    finds(NationalId, "«110105199003071108»");
    nothing("12345678A");
    nothing("X1234567A");
    nothing("RSSMRA85T10A562T");
    nothing("1 85 05 78 006 084 92");
    nothing("529.982.247-26");
    nothing("850709-9806");
    nothing("86 095 742 718");
    nothing("2021-01-02T03:04:05.12345678Z");
    nothing("110105194912310021");
}

#[test]
fn national_numbers_that_need_a_word() {
    finds(NationalId, "Steuer-ID: «86095742719»");
    finds(NationalId, "PESEL «44051401359»");
    finds(NationalId, "cpf=«52998224725»");
    finds(NationalId, "fødselsnummer «01019010046»");
    finds(NationalId, "NHS number «943 476 5919»");
    finds(NationalId, "Aadhaar: «2341 2341 2346»");
    finds(NationalId, "INSEE «185057800608491»");
    finds(NationalId, "userCpf: «52998224725»");
    nothing("LONIRQ = 2147578002, lessness 078051120");
    nothing("Steuer-ID: 86095742718");
    nothing("PESEL 44051401358");
    nothing("cpf=52998224726");
    nothing("fødselsnummer 01019010047");
    nothing("NHS number 943 476 5918");
    nothing("Aadhaar: 2341 2341 2347");
    // Without the word.
    nothing("size 86095742719, 44051401359 bytes, 52998224725, 943 476 5919");
    nothing("PESEL\n44051401359");
}

#[test]
fn social_security_numbers() {
    finds(UsSsn, "«078-05-1120»");
    finds(UsSsn, "SSN «078051120»");
    nothing("000-12-3456, 666-12-3456, 900-12-3456, 123-00-4567, 123-45-0000");
    nothing("078051120");
}

#[test]
fn what_is_assigned_to_a_name() {
    finds(NamedSecret, "DB_PASSWORD=«hunter2»");
    finds(NamedSecret, "export API_KEY='«abcdefgh»'");
    finds(NamedSecret, r#"password = "«correct-horse»""#);
    finds(NamedSecret, r#"{"password": "«two words»"}"#);
    finds(NamedSecret, r#"'clientSecret' => '«open»'"#);
    finds(
        NamedSecret,
        "https://example.org/?page=2&access_token=«9f8e7d6c5b»&x=1",
    );
    finds(NamedSecret, "Cookie: «session=abc12345; theme=dark»\nAccept: */*");
    finds(NamedSecret, "Authorization: Digest «a1b2c3d4e5f6»");
    finds(NamedSecret, "tool --password «hunter2» --verbose");
    finds(NamedSecret, "tool --api-key \"«abc»\"");
    nothing("password: string; token: Token; secret = getSecret()");
    nothing("The password: at least 8 characters. token=$TOKEN secret={{s3cret1}}");
    nothing(r#"password = "at least 8 of them""#);
    nothing("max_tokens=4096 nextPageToken: abcdef123456 token_type=abc123 password == hunter22");
    nothing("PASSWORD=******** TOKEN=xxxxxxxx");
    nothing("colon2_token: self.colon2_token.clone(), key_token: _bindgen_ty_7, Token: #c0ffee");
    nothing("token = sha256_of(x), api_key: ed25519_dalek::SigningKey, secret: https://example.org/a1");
    nothing("SO_NETNS_COOKIE: u32 = 71; attach_cookie: Type = 174;");
    nothing("--token-file /run/s3cret --password");
}

#[test]
fn random_words_after_a_word_like_secret() {
    let word = format!("{}+{}", noise(14), "Qe5Uj8");
    finds(Entropy, &format!("your secret is «{word}»"));
    finds(Entropy, &format!("the access key «{word}=», once"));
    nothing(&format!("your secret is\n{word}"));
    nothing(&format!("the cache entry {word}"));
    nothing(&format!("the next page token {word}"));
    nothing("secret commit da39a3ee5e6b4b0d3255bfef95601890afd80709");
    nothing("token 123e4567-e89b-12d3-a456-426614174000");
    nothing("the token type getUserAccessTokenV2FromCache");
    nothing(&format!("authorized_keys: ssh-ed25519 AAAAC3{}", noise(40)));
    nothing(&format!("the token's public half {word}"));
    nothing(&format!("[redacted:github-token] {word}"));
}

#[test]
fn percent_encoded() {
    finds(Email, "https://example.org/?to=«alice%40example.org»&x=%20");
    finds(NamedSecret, "body=password%3D«hunter2»%26x");
    let token = format!("gh%70{}{}", "_", noise(36));
    finds(GithubToken, &format!("x «{token}» y"));
    nothing("100%25 of %E4%B8%AD%E6%96%87 and %zz and %");
}

#[test]
fn escaped_in_a_string_in_a_text() {
    finds(Email, r"a\n«alice\u0040example.org»\n");
    finds(NamedSecret, r#"{\"password\": \"«hunter2»\"}"#);
    nothing(r"C:\users\new\table \u00 \");
}

#[test]
fn base64_of_a_text_that_holds_one() {
    // {"password": "hunter2"}
    finds(NamedSecret, "data: «eyJwYXNzd29yZCI6ICJodW50ZXIyIn0=», end");
    // write to alice@example.org today, without padding
    finds(Email, "«d3JpdGUgdG8gYWxpY2VAZXhhbXBsZS5vcmcgdG9kYXk»");
    // the same, twice over
    finds(
        Email,
        "«ZDNKcGRHVWdkRzhnWVd4cFkyVkFaWGhoYlhCc1pTNXZjbWNnZEc5a1lYaw==»",
    );
    nothing("aGVsbG8sIHRoaXMgaXMgcGxhaW4gdGV4dA==");
}

#[test]
fn overlapping_matches_are_one_and_no_end_stays() {
    let text = format!("token = \"{}{}-and-more\"", concat!("gh", "p_"), noise(36));
    assert_eq!(masked(&text), "token = \"[redacted:github-token]\"");
    assert_eq!(rules_in("a@example.org b@example.org"), [Email, Email]);
}

#[test]
fn what_stood_beside_a_match_is_found_when_that_is_gone() {
    let text = "078-05-1120-4111 1111 1111 1111";
    assert_eq!(rules_in(text), [Card]);
    assert_eq!(masked(text), "[redacted:us-ssn]-[redacted:card]");
    assert_eq!(Rules::default().text(text).matches, [(Card, 1), (UsSsn, 1)]);
}

#[test]
fn modes() {
    let text = "alice@example.org 4111111111111111";
    let redact = |modes: &[(RuleId, Mode)]| {
        let redacted = Rules::with(modes, Key::new([7; 32])).text(text);
        (
            String::from_utf8(redacted.bytes).unwrap(),
            redacted.matches,
            redacted.denied,
        )
    };
    let both = vec![(Card, 1), (Email, 1)];
    let masked = "[redacted:email] [redacted:card]".to_owned();
    assert_eq!(redact(&[]), (masked.clone(), both.clone(), false));
    assert_eq!(redact(&[(Card, Mode::Deny)]), (masked, both.clone(), true));
    let off = (
        "alice@example.org [redacted:card]".to_owned(),
        vec![(Card, 1)],
        false,
    );
    assert_eq!(redact(&[(Email, Mode::Off)]), off);
    let hashed = "[redacted:email:HASH] [redacted:card]".replace("HASH", EMAIL_UNDER_SEVENS);
    assert_eq!(redact(&[(Email, Mode::Hash)]), (hashed, both, false));
    let other = Rules::with(&[(Email, Mode::Hash)], Key::new([8; 32])).text(text);
    assert!(
        !String::from_utf8(other.bytes)
            .unwrap()
            .contains(EMAIL_UNDER_SEVENS)
    );
}

/// `printf alice@example.org | openssl dgst -sha256 -mac HMAC -macopt hexkey:0707…`, its first twelve digits.
const EMAIL_UNDER_SEVENS: &str = "eb0cf376a829";

#[test]
fn a_rule_that_denies_gives_its_name_to_what_it_overlaps() {
    let token = format!("https://u:{}{}@example.org/", concat!("gh", "p_"), noise(36));
    let rules = Rules::with(&[(UrlPassword, Mode::Deny)], Key::new([0; 32]));
    let redacted = rules.text(&token);
    assert_eq!(redacted.bytes, b"https://u:[redacted:url-password]@example.org/");
    assert!(redacted.denied);
}

#[test]
fn only_a_true_mask_is_left_alone() {
    let masks = "[redacted:email] and [redacted:us-ssn:012345678901]";
    assert_eq!(masked(masks), masks);
    assert_eq!(
        masked(&format!("password=\"{}\"", "[redacted:email]")),
        "password=\"[redacted:email]\""
    );
    let forged = "[redacted:alice@example.org] [redacted:card:4111111111111111]";
    assert_eq!(
        masked(forged),
        "[redacted:[redacted:email]] [redacted:card:[redacted:card]]"
    );
}

#[test]
fn names_of_rules_read_back() {
    for rule in RuleId::ALL {
        assert_eq!(rule.name().parse(), Ok(*rule));
    }
    let unknown = "no-such".parse::<RuleId>().unwrap_err().to_string();
    assert_eq!(
        unknown,
        "there is no redaction rule `no-such`: see docs/redaction.md for those there are"
    );
}
