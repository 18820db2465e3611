#include "lib/submission/envelope.h"

#include <algorithm>
#include <utility>

#include "lib/mail/charset.h"

namespace pen::submission {

mail::Envelope envelope_of(Submission submission) {
  mail::Envelope envelope;
  envelope.queue_id = std::move(submission.queue_id);
  envelope.arrival = submission.arrival;
  envelope.sender = std::move(submission.sender);
  envelope.recipients = std::move(submission.recipients);
  envelope.envid = std::move(submission.envid);
  envelope.ret = submission.ret;
  envelope.body_type = submission.body_type;
  envelope.requiretls = submission.requiretls;
  envelope.client.protocol = "local";
  envelope.purpose = submission.probe    ? mail::Purpose::probe
                     : submission.traced ? mail::Purpose::traced
                                         : mail::Purpose::mail;
  envelope.smtputf8 =
      submission.smtputf8 || !mail::all_ascii(envelope.sender) ||
      std::ranges::any_of(envelope.recipients, [](const auto& to) { return !mail::all_ascii(to.address); });
  return envelope;
}

}  // namespace pen::submission
