#pragma once
/// The recipients named in a message's own header, for sendmail -t.
///
/// Use:     HeaderRecipients reader;
///          reader.feed(content);            // the content in pieces of any size, until header_ended()
///          reader.finish();                 // at the end of a message that is all header
///          reader.fault() or reader.take()
/// Rules:   To:, Cc:, Bcc:; but if there is any Resent-To:, Resent-Cc: or Resent-Bcc:, those alone (RFC 5322 section
///          3.6.6: a resent message goes to its new recipients). Groups stand for their members. Addresses are in
///          external form and may lack a domain; duplicates are dropped, words that are no address are not. pickup
///          removes Bcc: from the header (message_drop_headers).
/// Bounds:  kMaxHeader bytes of these fields, kMaxRecipients addresses; more is a fault, never a shorter list.
/// Source:  RFC 5322 sections 3.4, 3.6.3 and 3.6.6.
#include <string>
#include <string_view>
#include <vector>

namespace pen::submission {

/// The addresses of a list as people write it. Blanks separate too, where no angle brackets are. A word that is no
/// address becomes a local part, which is tried and comes back: no recipient vanishes.
struct Listed {
  std::vector<std::string> addresses;
  std::size_t unreadable = 0;  // of these, words that are no address
};
/// Reads at most `most` addresses.
Listed read_recipients(std::string_view text, std::size_t most);

class HeaderRecipients {
 public:
  static constexpr std::size_t kMaxHeader = 4U << 20;

  void feed(std::string_view content);
  void finish();
  bool header_ended() const { return ended_; }
  /// Why there is no list; empty: there is one.
  const std::string& fault() const { return fault_; }
  std::vector<std::string> take();

 private:
  void line(std::string_view text);
  void field();

  std::string line_;   // the line so far, without its end
  std::string field_;  // the present field if it counts: name and value, unfolded
  bool in_field_ = false, first_line_ = true;
  std::size_t kept_ = 0;
  std::vector<std::string> plain_, resent_;
  bool any_resent_ = false, ended_ = false;
  std::string fault_;
};

}  // namespace pen::submission
