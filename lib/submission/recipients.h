#pragma once
/// sendmail -t: the recipients that a message's own header names.
///
/// Use:     HeaderRecipients reader;
///          reader.feed(content);            // the content in pieces of any size, until header_ended()
///          reader.finish();                 // at the end of a message that is all header
///          reader.fault() or reader.take()
/// Rules:   To:, Cc:, Bcc:; when any Resent-To:, Resent-Cc: or Resent-Bcc: is there, those alone (RFC 5322 section
///          3.6.6: the message goes to whom it is resent). Groups are their members. Addresses come in external form
///          and may lack a domain; duplicates are dropped. Taking Bcc: out of the header is pickup's business
///          (message_drop_headers).
/// Bounds:  kMaxHeader bytes of these fields, kMaxRecipients addresses: more is a fault, never a shorter list.
/// Source:  RFC 5322 sections 3.4, 3.6.3 and 3.6.6.
#include <string>
#include <string_view>
#include <vector>

namespace pen::submission {

class HeaderRecipients {
 public:
  static constexpr std::size_t kMaxHeader = 4U << 20;

  void feed(std::string_view content);
  void finish();
  bool header_ended() const { return ended_; }
  /// Why there is no list; empty: there is.
  const std::string& fault() const { return fault_; }
  std::vector<std::string> take();

 private:
  void line(std::string_view text);
  void field();

  std::string line_;   // without its end, until it has come
  std::string field_;  // the present one, if it counts: name and value unfolded
  bool in_field_ = false, first_line_ = true;
  std::size_t kept_ = 0;
  std::vector<std::string> plain_, resent_;
  bool any_resent_ = false, ended_ = false;
  std::string fault_;
};

}  // namespace pen::submission
