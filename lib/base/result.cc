#include "lib/base/result.h"

#include <cstring>

namespace pen {

std::string Error::message() const {
  std::string text = context_;
  if (!text.empty()) text += ": ";
  text += code_.message();
  if (sys_errno_ != 0 && code_.category() != std::generic_category()) {
    text += ": ";
    text += std::generic_category().message(sys_errno_);
  }
  return text;
}

Error Error::within(std::string_view outer) && {
  context_ = context_.empty() ? std::string(outer) : std::string(outer) + ": " + context_;
  return std::move(*this);
}

}  // namespace pen
