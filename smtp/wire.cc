#include "smtp/wire.h"

#include <algorithm>

#include "lib/mail/charset.h"

namespace pen::smtp {

bool header_needs_smtputf8(const ipc::delivery::Job& job) {
  // A header in UTF-8 counts only if the client asked for SMTPUTF8. Other 8-bit headers go as ever.
  return job.smtputf8 && job.body.eight_bit_header;
}

void append_mail(std::string& out, const ipc::delivery::Job& job, const Offers& offers) {
  const bool utf8 =
      offers.smtputf8 && (job.smtputf8 || !mail::all_ascii(job.sender) ||
                          std::any_of(job.recipients.begin(), job.recipients.end(), [](const auto& r) {
                            return !mail::all_ascii(r.recipient.address) || !mail::all_ascii(r.recipient.orcpt);
                          }));
  mail::append_mail(out,
                    {.sender = job.sender,
                     .size = job.body.size,
                     .body_type = job.body_type,
                     .eight_bit_body = job.body.eight_bit_body,
                     .smtputf8 = utf8,
                     .envid = job.envid,
                     .ret = job.ret,
                     .requiretls = job.requiretls == mail::RequireTls::yes,
                     .priority = job.priority},
                    offers);
}

}  // namespace pen::smtp
