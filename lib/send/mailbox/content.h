#pragma once
/// The form of a message in a mailbox: trace fields before it, LF line ends, mbox framing. Pure.
///
/// Use:     file starts with  mbox_from_line(…) (mbox only) + prepended_fields(…);
///          LineEnds lf; MboxQuoter quote;
///          for each chunk of the content:  quote.feed(lf.feed(chunk), out) …
/// Format:  content on the wire has CRLF; in a mailbox a line ends with LF. Every other byte stays unchanged: a CR
///          without LF, a NUL, a line of any length. mbox: a "From sender  date" line, content in which '>' is put
///          before a line that starts with "From ", and an empty line (as in Postfix and mbox readers).
/// Source:  RFC 5321 section 4.4 (Return-Path), RFC 4155, prepend_delivered_header, Postfix local(8).
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/time.h"

namespace pen::mailbox {

/// Turns CRLF into LF, however the input is cut. finish() returns a CR that was the last byte.
class LineEnds {
 public:
  void feed(std::string_view chunk, std::string& out);
  void finish(std::string& out);

 private:
  bool cr_ = false;
};

/// Puts '>' before "From " at the start of a line, however the input is cut. finish() ends the last line and adds the
/// empty line that ends a message in an mbox.
class MboxQuoter {
 public:
  void feed(std::string_view chunk, std::string& out);
  void finish(std::string& out);

 private:
  std::size_t matched_ = 0;  // bytes of "From " at the start of this line, held back
  bool line_start_ = true;
};

/// "From sender  Sat Nov 21 08:46:56 2026\n"; the null sender is MAILER-DAEMON. Local time, as mail readers expect.
std::string mbox_from_line(std::string_view sender, WallTime when);

/// Makes an address fit for one header line: control bytes become '?'.
std::string field_safe(std::string_view address);

/// Return-Path, X-Original-To, Delivered-To, each with LF. An empty address: without its field, but for Return-Path.
std::string prepended_fields(std::string_view sender, std::string_view original_to, std::string_view delivered_to);

/// The values of the Delivered-To fields of a header, in order.
std::vector<std::string_view> delivered_to(std::string_view header);
/// Whether the header (CRLF or LF lines, up to the empty line) has a Delivered-To field with this address, in any
/// case: the mail loops.
bool was_delivered_to(std::string_view header, std::string_view address);

/// The names of a Maildir file: before it is complete, and after.
struct MaildirName {
  WallTime now{};
  unsigned pid = 0;
  unsigned long long counter = 0;  // deliveries of this process
  unsigned long long random = 0;
  std::string hostname;
  /// "1700000000.P123Q4R9f….host": unique before the file exists.
  std::string temporary() const;
  /// "1700000000.V<device>I<inode>M<microseconds>.host": the inode makes it unique.
  std::string final(unsigned long long device, unsigned long long inode) const;
};

}  // namespace pen::mailbox
