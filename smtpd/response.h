#pragma once
/// What a transaction has its session tell the client.
///
/// Use:     co_return Response::good("250 2.1.5 Ok");   co_return Response::refused(verdict.reply, verdict.error);
///          Session::answer() writes it.
#include <string>
#include <utility>
#include <vector>

#include "lib/mail/error_class.h"

namespace pen::smtpd {

struct Response {
  enum class Kind : std::uint8_t {
    good,
    put_off,  // refused, but no error of the client: neither counted nor slowed down
    refused,
  };
  std::string text;  // the last line, without CRLF
  Kind kind = Kind::good;
  mail::ErrorClasses error;         // what the postmaster may be told of
  bool counts = false;              // of put_off: it is an error of the client after all
  std::vector<std::string> before;  // the lines in front of it

  static Response good(std::string text) { return {.text = std::move(text), .error = {}, .before = {}}; }
  static Response put_off(std::string text, mail::ErrorClasses error, bool counts = false) {
    return {.text = std::move(text), .kind = Kind::put_off, .error = error, .counts = counts, .before = {}};
  }
  static Response refused(std::string text, mail::ErrorClasses error = mail::ErrorClass::protocol) {
    return {.text = std::move(text), .kind = Kind::refused, .error = error, .before = {}};
  }
};

}  // namespace pen::smtpd
