#include "lib/config/key_process.h"

namespace pen::config {

std::optional<std::string> key_socket(const Config& config) {
  const Settings& s = config.settings();
  if (!s.tls_key_process) return std::nullopt;
  const Service* service = config.find_service(s.tls_key_service_name, ServiceType::unix_stream);
  if (service == nullptr || service->command != kKeyProgram) return std::nullopt;
  return (service->is_private ? "private/" : "public/") + s.tls_key_service_name;
}

}  // namespace pen::config
