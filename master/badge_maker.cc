#include "master/badge_maker.h"

#include <fmt/format.h>

#include <array>
#include <set>

#include "lib/base/digest/digest.h"
#include "lib/base/random.h"
#include "lib/suite/ipc/who_may_talk.h"

namespace pen::master {

std::string BadgeMaker::new_secret() {
  std::array<std::byte, ipc::kBadgeSize> bytes{};
  secure_random_bytes(bytes);
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(b));
  return text;
}

std::string BadgeMaker::badge(const std::string& label, const std::string& program) const {
  return digest::hmac(digest::Digest::sha256, secret_, label + '\0' + program);
}

ipc::Badges BadgeMaker::badges_for(const service::Planned& service, const std::vector<service::Planned>& all,
                                   bool demanded) const {
  ipc::Badges out{.program = service.program, .demanded = demanded, .worn = {}, .known = {}};
  std::set<std::string> clients;
  for (const service::Planned& other : all) {
    if (ipc::may_talk(service.program, other.program)) {
      for (const auto& socket : other.sockets)
        if (socket.is_unix()) out.worn.push_back({socket.path, badge(other.entry(), service.program)});
    }
    if (ipc::may_talk(other.program, service.program)) clients.insert(other.program);
  }
  for (const std::string& client : clients) out.known.push_back({client, badge(service.entry(), client)});
  return out;
}

}  // namespace pen::master
