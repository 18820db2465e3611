/// Policy servers: a reply of any bytes gives one bounded action or an error, and no value
/// in a request can add a line to it.
///
/// Input: lines of a reply; the same bytes as values of a request.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/base/check.h"
#include "lib/base/text.h"
#include "lib/mail/charset.h"
#include "smtpd/access.h"
#include "smtpd/policy_protocol.h"

using pen::smtpd::AccessAction;
using pen::smtpd::PolicyReply;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const bool utf8 = size % 2 == 0;
  PolicyReply reply;
  for (std::string_view rest = all; !rest.empty() && !reply.complete();) {
    const auto end = rest.find('\n');
    const auto line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (const auto taken = reply.line(line, utf8); !taken) {
      PEN_CHECK(!taken.error().message().empty());
      break;
    }
  }
  PEN_CHECK(reply.action().size() <= PolicyReply::kMaxSize);
  PEN_CHECK(!utf8 || pen::mail::valid_utf8(reply.action()));
  PEN_CHECK(!reply.action().contains('\n') && !reply.action().contains('\0'));
  if (reply.complete()) {
    const AccessAction action = pen::smtpd::parse_access(reply.action());
    PEN_CHECK(action.kind != AccessAction::Kind::code || (action.code >= 400 && action.code < 600));
    PEN_CHECK(action.text.size() <= reply.action().size() || action.kind == AccessAction::Kind::malformed);
  }

  pen::smtpd::PolicyQuery query;
  query.sender = query.helo_name = query.client_name = query.ccert_subject = query.mail_version = all;
  const std::string request = pen::smtpd::policy_request(query);
  PEN_CHECK(std::ranges::count(request, '\n') == 33);
  PEN_CHECK(request.starts_with("request=smtpd_access_policy\nprotocol_state="));
  PEN_CHECK(request.ends_with("\n\n") && request.find("\n\n") == request.size() - 2);
  PEN_CHECK(!request.contains('\0') && !request.contains('\r'));
  return 0;
}
