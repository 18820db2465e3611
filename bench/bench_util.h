#pragma once
/// Shared by the load generator and the sink: time, options, percentiles, checksums, connections of an epoll loop.
#define XXH_INLINE_ALL
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace pen::bench {

inline double now() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}
inline double cpu_seconds() {
  rusage u{};
  ::getrusage(RUSAGE_SELF, &u);
  return static_cast<double>(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         static_cast<double>(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}
[[noreturn]] inline void die(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(2);
}
inline void raise_fd_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// An address to connect to or to listen at.
struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  static Address unix(const std::string& path) {
    Address a;
    sockaddr_un un{};
    un.sun_family = AF_UNIX;
    if (path.size() >= sizeof un.sun_path) die("path too long: " + path);
    std::memcpy(un.sun_path, path.c_str(), path.size() + 1);
    std::memcpy(&a.storage, &un, sizeof un);
    a.size = sizeof un;
    return a;
  }
  static Address inet(const std::string& host, int port) {
    Address a;
    if (host.find(':') != std::string::npos) {
      sockaddr_in6 in{};
      in.sin6_family = AF_INET6;
      in.sin6_port = htons(static_cast<std::uint16_t>(port));
      if (::inet_pton(AF_INET6, host.c_str(), &in.sin6_addr) != 1) die("not an address: " + host);
      std::memcpy(&a.storage, &in, sizeof in);
      a.size = sizeof in;
    } else {
      sockaddr_in in{};
      in.sin_family = AF_INET;
      in.sin_port = htons(static_cast<std::uint16_t>(port));
      if (::inet_pton(AF_INET, host.c_str(), &in.sin_addr) != 1) die("not an address: " + host);
      std::memcpy(&a.storage, &in, sizeof in);
      a.size = sizeof in;
    }
    return a;
  }
  bool is_unix() const { return storage.ss_family == AF_UNIX; }
};

/// The value in milliseconds below which the given share of the sorted samples lies.
inline double percentile_ms(std::vector<float>& samples, double share) {
  if (samples.empty()) return 0;
  const auto i = std::min(samples.size() - 1, static_cast<std::size_t>(share * static_cast<double>(samples.size())));
  std::nth_element(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(i), samples.end());
  return static_cast<double>(samples[i]) * 1e3;
}

/// Ledger line: WORD ID CHECKSUM RECIPIENT. The checksum is XXH3-64 of the content after its header, in hex.
inline void ledger_line(std::string& out, std::string_view word, std::string_view id, std::uint64_t checksum,
                        std::string_view recipient) {
  char hex[20];
  std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(checksum));
  out.append(word).append(" ").append(id).append(" ").append(hex).append(" ").append(recipient).append("\n");
}
/// Appends each line to the file at once: the ledger survives the death of its writer.
class LedgerFile {
 public:
  void open(const std::string& path) {
    fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd_ < 0) die(path + ": " + std::strerror(errno));
  }
  bool on() const { return fd_ >= 0; }
  std::string text;
  void flush() {
    for (std::size_t at = 0; at < text.size() && fd_ >= 0;) {
      const ssize_t n = ::write(fd_, text.data() + at, text.size() - at);
      if (n <= 0) die(std::string("ledger: ") + std::strerror(errno));
      at += static_cast<std::size_t>(n);
    }
    text.clear();
  }

 private:
  int fd_ = -1;
};

}  // namespace pen::bench
