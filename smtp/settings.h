#pragma once
/// What the SMTP and LMTP client's engine and connections need from main.cf, under Postfix's names without the prefix.
///
/// For service lmtp the values come from the lmtp_* settings. Defaults are Postfix's unless a
/// comment says otherwise.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/time.h"

namespace pen::smtp {

struct Settings {
  bool lmtp = false;
  std::string helo_name = "localhost";        // smtp_helo_name, lmtp_lhlo_name: $myhostname
  bool always_send_ehlo = true;               // smtp_always_send_ehlo
  bool never_send_ehlo = false;               // smtp_never_send_ehlo
  std::vector<std::string> discard_keywords;  // smtp_discard_ehlo_keywords
  std::size_t line_length_limit = 998;        // smtp_line_length_limit; 0: none

  std::string bind_address, bind_address6;  // smtp_bind_address, smtp_bind_address6; empty: any

  bool assume_final = false;  // lmtp_assume_final: success is "delivered", not "relayed"

  // Pipelining (new here; chosen by measurement, see docs/pipelining.md).
  // pipeline_window_messages: in hand per connection with PIPELINING and CHUNKING, on a path of kWindowRoundTrip
  std::uint32_t window = 32;
  // pipeline_window_bytes: content sent and not answered, on such a path; one message may always go
  std::uint64_t window_bytes = 8 * 1024 * 1024;
  // larger content waits for the recipients' replies (BDAT)
  std::uint64_t eager_limit = 256 * 1024;
  bool pipelining = true;  // false: never, for a peer that has misbehaved

  milliseconds connect_timeout{seconds(30)};
  milliseconds helo_timeout{seconds(300)};
  milliseconds mail_timeout{seconds(300)};
  milliseconds rcpt_timeout{seconds(300)};
  milliseconds data_init_timeout{seconds(120)};
  milliseconds data_xfer_timeout{seconds(180)};
  milliseconds data_done_timeout{seconds(600)};
  milliseconds rset_timeout{seconds(20)};
  // smtp_quit_timeout; we never wait longer than 2 s, nothing depends on the answer
  milliseconds quit_timeout{seconds(300)};
};

}  // namespace pen::smtp
