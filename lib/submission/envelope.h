#pragma once
/// The envelope that a locally submitted message begins with: what pickup hands on, and people are shown.
///
/// Use:     mail::Envelope envelope = envelope_of(std::move(submission));
/// Not in it: full_name and gateway, which say how the header is completed.
/// Pure; any thread.
#include "lib/mail/envelope.h"
#include "lib/submission/format.h"

namespace pen::submission {

/// smtputf8 is also set where an address asks for it by itself.
mail::Envelope envelope_of(Submission submission);

}  // namespace pen::submission
