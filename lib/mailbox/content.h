#pragma once
/// What a mailbox holds of a message: trace fields put before it, LF line ends, mbox framing. Pure.
///
/// Use:     file starts with  mbox_from_line(…) (mbox only) + prepended_fields(…);
///          LineEnds lf; MboxQuoter quote;
///          for each chunk of the content:  quote.feed(lf.feed(chunk), out) …
/// Format:  content on the wire is CRLF; in a mailbox a line ends with LF. Every other byte stays as it is: a CR that
///          no LF follows, a NUL, a line of any length.
///          mbox: "From sender  date" line, content in which a line that starts with "From " gets '>' before it, an
///          empty line (as Postfix and the readers of its mailboxes have it).
/// Source:  RFC 5321 section 4.4 (Return-Path), RFC 4155, prepend_delivered_header, Postfix local(8).
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/time.h"

namespace pen::mailbox {

/// CRLF to LF over any split of the input. finish() gives back a CR that was the last byte.
class LineEnds {
 public:
  void feed(std::string_view chunk, std::string& out);
  void finish(std::string& out);

 private:
  bool cr_ = false;
};

/// '>' before a "From " at the start of a line, over any split of the input. finish() ends the last
/// line and adds the empty line that ends a message in an mbox.
class MboxQuoter {
 public:
  void feed(std::string_view chunk, std::string& out);
  void finish(std::string& out);

 private:
  std::size_t matched_ = 0;  // bytes of "From " seen at the start of this line and held back
  bool line_start_ = true;
};

/// "From sender  Sat Nov 21 08:46:56 2026\n"; the null sender is MAILER-DAEMON. Local time, as readers expect.
std::string mbox_from_line(std::string_view sender, WallTime when);

/// Address as it may stand in one header line: control bytes become '?'.
std::string field_safe(std::string_view address);

/// Return-Path, X-Original-To, Delivered-To, each with LF. delivered_to empty: neither of the latter two.
std::string prepended_fields(std::string_view sender, std::string_view original_to, std::string_view delivered_to);

/// What the Delivered-To fields of a header say, in order.
std::vector<std::string_view> delivered_to(std::string_view header);
/// True when the header (CRLF or LF lines, up to the empty line) holds a Delivered-To field with
/// this address: the mail loops. Case of the address does not matter. Looks at the first kMaxHeader
/// bytes.
inline constexpr std::size_t kMaxHeader = 256 * 1024;
bool was_delivered_to(std::string_view header, std::string_view address);

/// Names of a Maildir file: before it is complete, and after.
struct MaildirName {
  WallTime now{};
  unsigned pid = 0;
  unsigned long long counter = 0;  // of deliveries of this process
  unsigned long long random = 0;
  std::string hostname;
  /// "1700000000.P123Q4R9f….host": unique before the file exists.
  std::string temporary() const;
  /// "1700000000.V<device>I<inode>M<microseconds>.host": the inode makes it unique.
  std::string final(unsigned long long device, unsigned long long inode) const;
};

}  // namespace pen::mailbox
