#include "lib/config/config.h"

namespace pen::config {
Problems Config::report() const { return problems_; }
}  // namespace pen::config
