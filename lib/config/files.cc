#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "lib/config/config.h"
#include "lib/config/programs.h"

namespace pen::config {
namespace {

/// Reads a whole small file. Errors: too_large, when it exceeds the limit.
Result<std::string> read_whole(const std::string& path, std::size_t limit) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
  if (!file) return fail(ConfigError::unreadable, path, errno);
  std::string text;
  char block[16384];
  while (const std::size_t n = std::fread(block, 1, sizeof block, file.get())) {
    text.append(block, n);
    if (text.size() > limit) return fail(ConfigError::too_large, path);
  }
  if (std::ferror(file.get()) != 0) return fail(ConfigError::unreadable, path, errno);
  return text;
}

unsigned mask_bits(const sockaddr* mask, bool ipv6) {
  if (!mask) return ipv6 ? 128 : 32;
  const auto* bytes =
      ipv6 ? reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr.s6_addr
           : reinterpret_cast<const unsigned char*>(&reinterpret_cast<const sockaddr_in*>(mask)->sin_addr);
  unsigned bits = 0;
  for (int i = 0; i < (ipv6 ? 16 : 4); ++i) bits += static_cast<unsigned>(__builtin_popcount(bytes[i]));
  return bits;
}

std::vector<InterfaceAddress> own_interfaces() {
  std::vector<InterfaceAddress> found;
  ifaddrs* head = nullptr;
  if (getifaddrs(&head) != 0) return found;
  for (const ifaddrs* i = head; i; i = i->ifa_next) {
    if (!i->ifa_addr || (i->ifa_flags & IFF_UP) == 0) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const bool ipv6 = family == AF_INET6;
    char text[NI_MAXHOST] = "";
    if (getnameinfo(i->ifa_addr, ipv6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in), text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) != 0)
      continue;
    std::string address = text;
    address.resize(std::min(address.size(), address.find('%')));  // fe80::1%eth0
    found.push_back({address, mask_bits(i->ifa_netmask, ipv6), ipv6});
  }
  freeifaddrs(head);
  return found;
}

Result<Config> read_files(const std::string& directory, std::vector<Override> overrides, bool need_master) {
  Sources sources;
  sources.directory = directory;
  sources.overrides = std::move(overrides);
  PEN_TRY_ASSIGN(sources.main_cf, read_whole(directory + "/main.cf", kMaxFile));
  auto master = read_whole(directory + "/master.cf", kMaxFile);
  if (master) {
    sources.master_cf = *std::move(master);
  } else if (need_master || !master.error().is_errno(ENOENT)) {
    return fail(std::move(master).error());
  }
  return Config::parse(std::move(sources), system_surroundings());
}

}  // namespace

Surroundings system_surroundings() {
  Surroundings here;
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) == 0) here.hostname = name;
  here.interfaces = own_interfaces();
  here.install_prefix = PEN_INSTALL_PREFIX;
  here.programs = programs_beside();
  here.holds_programs = holds_programs;
  here.read_file = [](const std::string& path) { return read_whole(path, 64 * 1024); };
  return here;
}

std::string config_directory(std::string_view directory) {
  const char* from_environment = std::getenv("MAIL_CONFIG");
  std::string path = !directory.empty()                      ? std::string(directory)
                     : from_environment && *from_environment ? from_environment
                                                             : "/etc/penstock";
  // master and its programs run in another working directory than the caller that names the directory.
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

Result<Config> load(const std::string& directory, std::vector<Override> overrides, bool need_master) {
  auto config = read_files(directory, std::move(overrides), need_master);
  if (config && !config->problems().empty() && config->problems().front().severity == Severity::error)
    return fail(ConfigError::bad_syntax, config->problems().front().message());
  return config;
}

Result<Config> inspect(const std::string& directory, std::vector<Override> overrides) {
  return read_files(directory, std::move(overrides), false);
}

}  // namespace pen::config
