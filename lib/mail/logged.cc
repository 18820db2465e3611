#include "lib/mail/logged.h"

#include <atomic>

#include "lib/mail/address.h"

namespace pen::mail {
namespace {
std::atomic<LogForm> form_of_process{LogForm{}};
}  // namespace

void set_log_form(LogForm form) { form_of_process.store(form, std::memory_order_relaxed); }
LogForm log_form() { return form_of_process.load(std::memory_order_relaxed); }

std::string logged(std::string_view address) {
  return log_form().internal ? to_internal(address) : std::string(address);
}

}  // namespace pen::mail
