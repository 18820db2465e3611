#include "error/answer.h"

#include "lib/base/text.h"
#include "lib/mail/reply.h"

namespace pen::error_program {

Kind kind_of(std::string_view service) {
  if (service == "retry") return Kind::retry;
  if (service == "discard") return Kind::discard;
  return Kind::error;
}

mail::DeliveryStatus answer(Kind kind, std::string_view nexthop) {
  std::string_view text = trim(nexthop);
  std::string dsn = kind == Kind::error ? "5.0.0" : kind == Kind::retry ? "4.0.0" : "2.0.0";
  if (const auto code = mail::enhanced_code(text)) {
    dsn = std::string(*code);
    text = trim(text.substr(code->size()));
    // The service decides the class: text in a transport map must not turn a failure into a success.
    dsn[0] = kind == Kind::error ? '5' : kind == Kind::retry ? '4' : '2';
  }
  mail::DeliveryStatus status;
  status.dsn = std::move(dsn);
  status.action = kind == Kind::error   ? mail::Action::failed
                  : kind == Kind::retry ? mail::Action::deferred
                                        : mail::Action::delivered;
  status.text = printable(text, 1000);
  if (status.text.empty())
    status.text = kind == Kind::error   ? "mail to this address is refused"
                  : kind == Kind::retry ? "mail to this address waits"
                                        : "discarded";
  return status;
}

}  // namespace pen::error_program
