#pragma once
/// The envelope of a locally submitted message, as pickup passes it on and people are shown it.
///
/// Use:     mail::Envelope envelope = envelope_of(std::move(submission));
/// Not in it: full_name and gateway, which control how the header is completed.
/// Pure; any thread.
#include "lib/mail/envelope.h"
#include "lib/receive/submission/format.h"

namespace pen::submission {

/// smtputf8 is also set if an address needs it.
mail::Envelope envelope_of(Submission submission);

}  // namespace pen::submission
