#include "smtp/from_config.h"

namespace pen::smtp {

Settings settings_from(const config::Settings& from, bool lmtp) {
  Settings s;
  s.lmtp = lmtp;
  s.always_send_ehlo = from.smtp_always_send_ehlo;
  s.never_send_ehlo = from.smtp_never_send_ehlo;
  s.window = static_cast<std::uint32_t>(from.pipeline_window_messages);
  s.window_bytes = static_cast<std::uint64_t>(from.pipeline_window_bytes);
  s.assume_final = lmtp && from.lmtp_assume_final;
  s.helo_name = lmtp ? from.lmtp_lhlo_name : from.smtp_helo_name;
  s.discard_keywords = lmtp ? from.lmtp_discard_lhlo_keywords : from.smtp_discard_ehlo_keywords;
  s.line_length_limit =
      static_cast<std::size_t>(lmtp ? from.lmtp_line_length_limit : from.smtp_line_length_limit);
  s.bind_address = lmtp ? from.lmtp_bind_address : from.smtp_bind_address;
  s.bind_address6 = lmtp ? from.lmtp_bind_address6 : from.smtp_bind_address6;
  s.connect_timeout = lmtp ? from.lmtp_connect_timeout : from.smtp_connect_timeout;
  s.helo_timeout = lmtp ? from.lmtp_lhlo_timeout : from.smtp_helo_timeout;
  s.mail_timeout = lmtp ? from.lmtp_mail_timeout : from.smtp_mail_timeout;
  s.rcpt_timeout = lmtp ? from.lmtp_rcpt_timeout : from.smtp_rcpt_timeout;
  s.data_init_timeout = lmtp ? from.lmtp_data_init_timeout : from.smtp_data_init_timeout;
  s.data_xfer_timeout = lmtp ? from.lmtp_data_xfer_timeout : from.smtp_data_xfer_timeout;
  s.data_done_timeout = lmtp ? from.lmtp_data_done_timeout : from.smtp_data_done_timeout;
  s.rset_timeout = lmtp ? from.lmtp_rset_timeout : from.smtp_rset_timeout;
  s.quit_timeout = lmtp ? from.lmtp_quit_timeout : from.smtp_quit_timeout;
  return s;
}

}  // namespace pen::smtp
