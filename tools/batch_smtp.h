#pragma once
/// A message as batch SMTP: the commands and the content with which any mail system can be given it.
///
/// Use:     write(batch_begin(envelope, recipients, {.helo = "mx.example"}));  BatchContent content(write);
///          content.feed(stored); content.finish();  write(batch_end());
/// Form:    EHLO, MAIL, RCPT for each recipient, DATA, the content with dots doubled, QUIT; lines end in CRLF.
///          sendmail -bs of Postfix reads it, and exim -bS.
/// Source:  RFC 2442 (the idea), RFC 5321, RFC 3461 (parameters).
/// Pure.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/mail/data_form.h"
#include "lib/mail/envelope.h"

namespace pen::tools {

struct BatchOptions {
  std::string helo;
  bool plain = false;  // no parameters: for a mail system that does not know them
};
std::string batch_begin(const mail::Envelope& envelope, const std::vector<mail::Recipient>& recipients,
                        const BatchOptions& options);
/// Lines of any length stay as they are.
class BatchContent {
 public:
  using Write = std::function<void(std::string_view)>;
  explicit BatchContent(Write write) : write_(std::move(write)), form_(0) {}
  void feed(std::string_view stored);
  /// With the dot that ends it.
  void finish();

 private:
  void pass(std::vector<Bytes>& pieces);
  Write write_;
  mail::DataForm form_;
};
std::string batch_end();

}  // namespace pen::tools
