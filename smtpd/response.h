#pragma once
/// A step's result in a transaction: the reply that the session gives the client.
///
/// Use:     co_return Response::good("250 2.1.5 Ok");   co_return Response::refused(verdict.reply, verdict.error);
///          Conversation::answer() writes it.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/metrics/labels.h"
#include "lib/mail/error_class.h"

namespace pen::smtpd {

struct Response {
  enum class Kind : std::uint8_t {
    good,
    put_off,  // refused, but not counted as an error of the client, and not slowed down
    refused,
  };
  std::string text;  // the last line, without CRLF
  Kind kind = Kind::good;
  mail::ErrorClasses error;                    // what may be reported to the postmaster
  std::optional<metrics::Reason> reason = {};  // why it refuses, if the class of error does not say it
  bool counts = false;                         // for put_off: count it as an error of the client after all
  std::vector<std::string> before;             // the lines before the last one

  static Response good(std::string text) { return {.text = std::move(text), .error = {}, .before = {}}; }
  static Response put_off(std::string text, mail::ErrorClasses error, bool counts = false) {
    return {.text = std::move(text), .kind = Kind::put_off, .error = error, .counts = counts, .before = {}};
  }
  Response&& because(metrics::Reason why) && {
    reason = why;
    return std::move(*this);
  }
  static Response refused(std::string text, mail::ErrorClasses error = mail::ErrorClass::protocol) {
    return {.text = std::move(text), .kind = Kind::refused, .error = error, .before = {}};
  }
};

}  // namespace pen::smtpd
