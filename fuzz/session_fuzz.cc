// Whole SMTP sessions: any bytes in any split. No crash, only well-formed replies, nothing left behind.
#include <cstdlib>

#include "lib/base/log.h"
#include "smtpd/session_fixture.h"

using pen::smtpd::testing::Rig;

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  static const bool quiet = [] {
    pen::log::Options options;
    options.program = "fuzz";
    options.target = pen::log::Target::file;
    options.path = "/dev/null";
    return pen::log::open(std::move(options)).has_value();
  }();
  if (!quiet || size < 2) return 0;
  const std::size_t piece = data[0] + 1u;
  const bool trusted = (data[1] & 1) != 0;
  const std::string_view in(reinterpret_cast<const char*>(data) + 2, size - 2);
  {
    static const std::string kConfig =
        "message_size_limit = 4000\nsmtpd_hard_error_limit = 50\nsmtpd_soft_error_limit = 50\n"
        "smtpd_sender_restrictions = check_sender_access inline:{a.example=REJECT}, "
        "reject_unknown_sender_domain\n"
        "smtpd_authorized_xforward_hosts = 127.0.0.1\nsmtpd_authorized_xclient_hosts = 127.0.0.1\n"
        "smtpd_forbid_unauth_pipelining = no\n";
    Rig rig(kConfig);
    rig.queue.limit = 1 << 20;  // no handler threads: runs must be exactly repeatable
    std::string out = rig.connect(trusted ? "127.0.0.1" : "192.0.2.7");
    out += rig.say_in_pieces(in, piece);
    if (!out.starts_with("220 ") || !out.ends_with("\r\n")) std::abort();
    for (std::size_t at = 0; at < out.size();) {
      const auto end = out.find("\r\n", at);
      if (end == std::string::npos || end - at < 4 || end - at > 510) std::abort();
      if (out[at] < '2' || out[at] > '5' || (out[at + 3] != ' ' && out[at + 3] != '-')) std::abort();
      at = end + 2;
    }
    for (const auto& stored : rig.queue.stored) {
      if (stored.content.size() != stored.envelope.body.size || !stored.content.ends_with("\r\n")) std::abort();
      if (stored.envelope.recipients.empty()) std::abort();
    }
  }
  if (pen::async::live_frames() != 0) std::abort();
  return 0;
}
