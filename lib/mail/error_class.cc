#include "lib/mail/error_class.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <utility>

#include "lib/base/text.h"

namespace pen::mail {
namespace {

using Row = std::pair<std::string_view, ErrorClass>;
constexpr std::array<Row, 8> kWords = {{{"bounce", ErrorClass::bounce},
                                        {"2bounce", ErrorClass::double_bounce},
                                        {"data", ErrorClass::data},
                                        {"delay", ErrorClass::delay},
                                        {"policy", ErrorClass::policy},
                                        {"protocol", ErrorClass::protocol},
                                        {"resource", ErrorClass::resource},
                                        {"software", ErrorClass::software}}};

}  // namespace

Result<ErrorClasses> parse_error_classes(std::span<const std::string> words) {
  ErrorClasses classes;
  for (const auto& word : words) {
    const Row* row = nullptr;
    for (const auto& known : kWords)
      if (iequals(word, known.first)) row = &known;
    if (row == nullptr)
      return fail_errno(fmt::format("notify_classes: {}: bounce, 2bounce, data, delay, policy, "
                                    "protocol, resource or software is expected",
                                    printable(word, 60)),
                        EINVAL);
    classes.add(row->second);
    if (row->second == ErrorClass::bounce) classes.add(ErrorClass::double_bounce);
  }
  return classes;
}

std::string shown(ErrorClasses classes) {
  std::string text;
  for (const auto& [word, one] : kWords) {
    if (!classes.has(one)) continue;
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

}  // namespace pen::mail
