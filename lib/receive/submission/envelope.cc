#include "lib/receive/submission/envelope.h"

#include <algorithm>
#include <utility>

#include "lib/mail/charset.h"

namespace pen::submission {

mail::Envelope envelope_of(Submission submission) {
  mail::Envelope envelope;
  envelope.queue_id = std::move(submission.queue_id);
  envelope.facts() = std::move(submission.facts());
  envelope.recipients = std::move(submission.recipients);
  envelope.client.protocol = "local";
  envelope.smtputf8 =
      envelope.smtputf8 || !mail::all_ascii(envelope.sender) ||
      std::ranges::any_of(envelope.recipients, [](const auto& to) { return !mail::all_ascii(to.address); });
  return envelope;
}

}  // namespace pen::submission
