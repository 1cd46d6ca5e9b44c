//! What callers can read out of an error: with details, with plain trailers, and with neither.

use super::*;

/// What is expected of an error.
struct Expected {
    code: Code,
    reason: Reason,
    retry: Option<Duration>,
    field: Option<&'static str>,
}

fn expect(code: Code, reason: Reason) -> Expected {
    Expected {
        code,
        reason,
        retry: None,
        field: None,
    }
}

#[test]
fn each_error_has_its_row_of_the_table() {
    let store = |error: StoreError| Status::from(Error::Store(error));
    let secret = || "redis://user:secret@10.0.0.1".to_owned();
    let rows: Vec<(Status, Expected)> = vec![
        (
            Error::InvalidField {
                field: "min_fencing_token",
                problem: "is too far ahead".to_owned(),
            }
            .into(),
            Expected {
                field: Some("min_fencing_token"),
                ..expect(Code::InvalidArgument, Reason::InvalidField)
            },
        ),
        (
            Violations::one("key", "is empty").into(),
            Expected {
                field: Some("key"),
                ..expect(Code::InvalidArgument, Reason::InvalidField)
            },
        ),
        (
            malformed("truncated"),
            expect(Code::InvalidArgument, Reason::InvalidField),
        ),
        (
            Error::ValueTooLarge { size: 10, max: 5 }.into(),
            Expected {
                field: Some("value"),
                ..expect(Code::InvalidArgument, Reason::ValueTooLarge)
            },
        ),
        (
            Error::UnknownNamespace("shop".to_owned()).into(),
            expect(Code::NotFound, Reason::UnknownNamespace),
        ),
        (
            Error::Overloaded {
                what: "too many parked callers",
                retry_after: Duration::from_micros(1_500),
            }
            .into(),
            Expected {
                retry: Some(Duration::from_micros(1_500)),
                ..expect(Code::ResourceExhausted, Reason::Overloaded)
            },
        ),
        (
            store(StoreError::Full(secret())),
            Expected {
                retry: Some(FULL_RETRY),
                ..expect(Code::Unavailable, Reason::StoreUnavailable)
            },
        ),
        (
            store(StoreError::Unavailable(secret())),
            Expected {
                retry: Some(STORE_RETRY),
                ..expect(Code::Unavailable, Reason::StoreUnavailable)
            },
        ),
        (
            store(StoreError::Unknown(secret())),
            Expected {
                retry: Some(UNKNOWN_RETRY),
                ..expect(Code::Unavailable, Reason::OutcomeUnknown)
            },
        ),
        (
            Error::Draining.into(),
            Expected {
                retry: Some(DRAIN_RETRY),
                ..expect(Code::Unavailable, Reason::Draining)
            },
        ),
        (
            stream_protocol("send Subscribe first"),
            expect(Code::FailedPrecondition, Reason::StreamProtocol),
        ),
        (
            unauthenticated("send a token"),
            expect(Code::Unauthenticated, Reason::Unauthenticated),
        ),
        (
            forbidden("ask for admin"),
            expect(Code::PermissionDenied, Reason::Forbidden),
        ),
        (internal(), expect(Code::Internal, Reason::Internal)),
    ];
    for (status, expected) in &rows {
        let name = expected.reason.as_str();
        let details = status.get_error_details();
        assert_eq!(status.code(), expected.code, "{name}");
        let info = details.error_info().expect(name);
        assert_eq!((info.reason.as_str(), info.domain.as_str()), (name, DOMAIN));
        assert_eq!(
            status.metadata().get(REASON_TRAILER).map(|it| it.as_bytes()),
            Some(name.as_bytes())
        );
        let delay = details.retry_info().and_then(|it| it.retry_delay);
        let fits = match (delay, expected.retry) {
            (Some(delay), Some(least)) => (least..=least.mul_f64(1.5) + Duration::from_millis(1)).contains(&delay),
            (delay, expected) => delay == expected,
        };
        assert!(
            fits,
            "{name}: {delay:?}, expected {:?} and up to half of it",
            expected.retry
        );
        assert_eq!(
            status.metadata().get(PUSHBACK_TRAILER).is_some(),
            expected.retry.is_some(),
            "{name}"
        );
        let field = details.bad_request().map(|it| it.field_violations[0].field.as_str());
        assert_eq!(field, expected.field, "{name}");
        assert!(!status.message().contains("secret"), "{}", status.message());
    }
    for reason in Reason::ALL {
        assert!(
            rows.iter().any(|(_, row)| row.reason == reason),
            "{} has no row",
            reason.as_str()
        );
    }
}

#[test]
fn the_pushback_is_the_retry_delay_in_whole_milliseconds_and_each_call_is_told_another() {
    let told = |after, seed| {
        let failure = Failure::new(Reason::Overloaded, "x").retry(after);
        let status = failure.told(Draw { secret: 0, seed });
        let pushback = status
            .metadata()
            .get(PUSHBACK_TRAILER)
            .and_then(|it| it.to_str().ok())
            .map(str::to_owned);
        let delay = status.get_error_details().retry_info().and_then(|it| it.retry_delay);
        (delay.expect("a delay").as_millis(), pushback.expect("a pushback"))
    };
    let mut delays = std::collections::BTreeSet::new();
    for seed in 0..100 {
        let (delay, pushback) = told(Duration::from_secs(2), seed);
        assert!((2_000..=3_000).contains(&delay), "{delay}");
        assert_eq!(pushback, delay.to_string());
        delays.insert(delay);
    }
    assert!(delays.len() > 80, "{delays:?}");
    let (delay, _) = told(Duration::from_micros(1_500), 1);
    assert!((2..=3).contains(&delay), "rounded up: {delay}");
    assert_eq!(told(Duration::ZERO, 1), (0, "0".to_owned()));
    assert_eq!(told(Duration::MAX, 1).1, u64::MAX.to_string());
}

#[test]
fn all_violations_are_in_the_details_and_in_the_text() {
    let both = Violations(
        [
            Violations::one("key", "is empty"),
            Violations::one("wait", "is negative"),
        ]
        .into_iter()
        .flat_map(|one| one.0)
        .collect(),
    );
    let status = Status::from(both);
    assert_eq!(status.message(), "key is empty. wait is negative.");
    let details = status.get_error_details();
    let told: Vec<_> = details
        .bad_request()
        .expect("a bad request")
        .field_violations
        .iter()
        .map(|it| (it.field.as_str(), it.description.as_str()))
        .collect();
    assert_eq!(told, [("key", "is empty"), ("wait", "is negative")]);
}

#[test]
fn what_a_later_release_brings_is_told_as_such() {
    let status = not_yet("ScheduleRefresh", "refresh scheduling");
    assert_eq!(status.code(), Code::Unimplemented);
    assert_eq!(
        status.message(),
        "ScheduleRefresh is not available in this release of drover: refresh scheduling comes with a later one"
    );
}
