#include "lib/queue/views/suppression.h"

#include "lib/base/text.h"
#include "lib/suite/suppression/words.h"

namespace pen::views {

nlohmann::ordered_json to_json(const ipc::suppression::Entry& e) {
  return {{"address", readable(e.address)},
          {"tenant", readable(e.tenant)},
          {"listed", e.listed},
          {"reason", suppression::word(e.reason)},
          {"text", readable(e.text)},
          {"changed", e.changed},
          {"expires", e.expires},
          {"days", e.days}};
}

}  // namespace pen::views
