#include "lib/suite/suppression/words.h"

#include "lib/base/date.h"

namespace pen::suppression {

std::string_view word(Reason reason) {
  switch (reason) {
    case Reason::bounce:
      return "bounce";
    case Reason::returned:
      return "returned";
    case Reason::complaint:
      return "complaint";
    case Reason::order:
      return "order";
  }
  return "?";
}

std::optional<Reason> reason_named(std::string_view name) {
  for (const Reason reason : {Reason::bounce, Reason::returned, Reason::complaint, Reason::order})
    if (word(reason) == name) return reason;
  return std::nullopt;
}

std::string end_text(std::int64_t expires) {
  if (expires == 0) return "never";
  return utc_text(WallTime(seconds(expires)));
}

std::string_view in_words(Reason reason) {
  switch (reason) {
    case Reason::bounce:
      return "its mail was refused for good";
    case Reason::returned:
      return "its mail came back";
    case Reason::complaint:
      return "its reader complained";
    case Reason::order:
      return "by order";
  }
  return "?";
}

}  // namespace pen::suppression
