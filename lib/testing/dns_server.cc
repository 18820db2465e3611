#include "lib/testing/dns_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <optional>

#include "lib/base/check.h"
#include "lib/base/text.h"

namespace pen::testing {
namespace {

void put16(std::string& out, unsigned v) {
  out += static_cast<char>(v >> 8 & 255);
  out += static_cast<char>(v & 255);
}
void put32(std::string& out, std::uint32_t v) {
  put16(out, v >> 16);
  put16(out, v & 0xffff);
}

std::optional<DnsServer::Query> parse(const std::string& wire, bool tcp) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(wire[i]); };
  if (wire.size() < 17) return std::nullopt;
  DnsServer::Query q;
  q.id = static_cast<std::uint16_t>(byte(0) << 8 | byte(1));
  q.tcp = tcp;
  q.edns = byte(11) != 0;
  std::size_t i = 12;
  while (i < wire.size() && byte(i) != 0) {
    if (!q.name.empty()) q.name += '.';
    q.name += to_lower(wire.substr(i + 1, byte(i)));
    i += byte(i) + 1U;
  }
  if (i + 5 > wire.size()) return std::nullopt;
  q.type = static_cast<std::uint16_t>(byte(i + 1) << 8 | byte(i + 2));
  q.question = wire.substr(12, i + 5 - 12);
  return q;
}

bool read_all(int fd, std::string& into, std::size_t size) {
  into.resize(size);
  std::size_t got = 0;
  while (got < size) {
    const ssize_t n = ::read(fd, into.data() + got, size - got);
    if (n <= 0) return false;
    got += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

DnsServer::DnsServer() {
  // Finding a port that is free for both protocols may take some tries.
  for (int attempt = 0; attempt < 50; ++attempt) {
    udp_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    tcp_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    PEN_CHECK(::bind(udp_, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
    PEN_CHECK(::getsockname(udp_, reinterpret_cast<sockaddr*>(&at), &size) == 0);
    port_ = ntohs(at.sin_port);
    if (::bind(tcp_, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 && ::listen(tcp_, 64) == 0) break;
    ::close(udp_);
    ::close(tcp_);
    port_ = 0;
  }
  PEN_CHECK(port_ != 0);
  PEN_CHECK(::pipe(wake_) == 0);
  thread_ = std::thread([this] { serve(); });
}
DnsServer::~DnsServer() {
  PEN_CHECK(::write(wake_[1], "x", 1) == 1);
  thread_.join();
  for (const int fd : {udp_, tcp_, wake_[0], wake_[1]}) ::close(fd);
}

void DnsServer::serve() {
  for (;;) {
    pollfd fds[] = {{udp_, POLLIN, 0}, {tcp_, POLLIN, 0}, {wake_[0], POLLIN, 0}};
    ::poll(fds, 3, -1);
    if (fds[2].revents != 0) return;
    if (fds[1].revents != 0) serve_tcp();
    if (fds[0].revents == 0) continue;
    std::string wire(4096, '\0');
    sockaddr_in from{};
    socklen_t size = sizeof from;
    const ssize_t got = ::recvfrom(udp_, wire.data(), wire.size(), 0, reinterpret_cast<sockaddr*>(&from), &size);
    if (got <= 0) continue;
    wire.resize(static_cast<std::size_t>(got));
    const auto query = parse(wire, false);
    if (!query) continue;
    for (const auto& datagram : answer(*query)) {
      ::sendto(udp_, datagram.data(), datagram.size(), 0, reinterpret_cast<sockaddr*>(&from), size);
    }
  }
}
void DnsServer::serve_tcp() {
  const int fd = ::accept(tcp_, nullptr, nullptr);
  if (fd < 0) return;
  std::string wire;
  if (read_all(fd, wire, 2) &&
      read_all(fd, wire, std::size_t{static_cast<unsigned char>(wire[0])} << 8 | static_cast<unsigned char>(wire[1]))) {
    if (const auto query = parse(wire, true)) {
      for (const auto& message : answer(*query)) {
        std::string framed;
        put16(framed, static_cast<unsigned>(message.size()));
        framed += message;
        (void)::send(fd, framed.data(), framed.size(), MSG_NOSIGNAL);
      }
    }
  }
  ::close(fd);
}

std::vector<std::string> DnsServer::answer(const Query& query) {
  Handler handler;
  Reply reply;
  {
    std::lock_guard lock(mutex_);
    ++asked_[query.name];
    if (const auto found = handlers_.find(query.name); found != handlers_.end()) handler = found->second;
    std::string name = query.name;
    bool exists = false;
    reply.authenticated = true;
    for (int hops = 0; hops < 20; ++hops) {
      std::string next;
      exists = false;
      reply.authenticated = reply.authenticated && secure_.contains(name);
      for (const auto& r : records_) {
        if (r.name != name) continue;
        exists = true;
        if (r.type == query.type || r.type == 5) reply.answers.push_back(r);
        if (r.type == 5 && query.type != 5) {
          const auto alias = parse(std::string(12, '\0') + r.data + std::string(8, '\0'), false);
          if (alias) next = alias->name;
        }
      }
      if (next.empty()) break;
      name = next;
    }
    if (!exists) reply.rcode = 3;
    if (reply.answers.empty() || reply.answers.back().type != query.type)
      reply.authority.push_back(soa("test", 60, 60));
  }
  if (handler) return handler(query);
  return {wire(query, reply)};
}

void DnsServer::add(Record record) {
  std::lock_guard lock(mutex_);
  records_.push_back(std::move(record));
}
void DnsServer::a(const std::string& name, const std::string& address, std::uint32_t ttl) {
  add({name, 1, ttl, a_data(address)});
}
void DnsServer::aaaa(const std::string& name, const std::string& address, std::uint32_t ttl) {
  std::string data(16, '\0');
  PEN_CHECK(inet_pton(AF_INET6, address.c_str(), data.data()) == 1);
  add({name, 28, ttl, data});
}
void DnsServer::tlsa(const std::string& name, const std::string& text, std::uint32_t ttl) {
  unsigned usage = 0, selector = 0, matching = 0;
  char hex[1025] = "";
  PEN_CHECK(std::sscanf(text.c_str(), "%u %u %u %1024s", &usage, &selector, &matching, hex) == 4);
  std::string data = {static_cast<char>(usage), static_cast<char>(selector), static_cast<char>(matching)};
  for (const char* at = hex; at[0] != '\0' && at[1] != '\0'; at += 2)
    data += static_cast<char>(std::stoi(std::string(at, 2), nullptr, 16));
  add({name, 52, ttl, data});
}
void DnsServer::secure(const std::string& name) {
  std::lock_guard lock(mutex_);
  secure_.insert(name);
}
void DnsServer::mx(const std::string& name, unsigned preference, const std::string& host, std::uint32_t ttl) {
  add({name, 15, ttl, mx_data(preference, host)});
}
void DnsServer::cname(const std::string& name, const std::string& target, std::uint32_t ttl) {
  add({name, 5, ttl, wire_name(target)});
}
void DnsServer::rcode(const std::string& name, unsigned code) {
  on(name, [code](const Query& q) {
    Reply reply;
    reply.rcode = code;
    return std::vector{wire(q, reply)};
  });
}
void DnsServer::on(const std::string& name, Handler handler) {
  std::lock_guard lock(mutex_);
  handlers_[name] = std::move(handler);
}
unsigned DnsServer::asked(const std::string& name) const {
  std::lock_guard lock(mutex_);
  unsigned count = 0;
  for (const auto& [n, c] : asked_) {
    if (name.empty() || n == name) count += c;
  }
  return count;
}

std::string DnsServer::wire_name(const std::string& name) {
  std::string out;
  for (const auto label : split(name, ".")) {
    out += static_cast<char>(label.size());
    out += label;
  }
  out += '\0';
  return out;
}
std::string DnsServer::mx_data(unsigned preference, const std::string& host) {
  std::string out;
  put16(out, preference);
  return out + wire_name(host);
}
std::string DnsServer::a_data(const std::string& address) {
  std::string data(4, '\0');
  PEN_CHECK(inet_pton(AF_INET, address.c_str(), data.data()) == 1);
  return data;
}
DnsServer::Record DnsServer::soa(const std::string& zone, std::uint32_t ttl, std::uint32_t minimum) {
  std::string data = wire_name("ns." + zone) + wire_name("root." + zone);
  for (const std::uint32_t v : {1U, 3600U, 600U, 86400U, minimum}) put32(data, v);
  return {zone, 6, ttl, data};
}
std::string DnsServer::wire(const Query& query, const Reply& reply) {
  std::string out;
  put16(out, query.id);
  put16(out, 0x8180U | (reply.truncated ? 0x0200U : 0) | (reply.authenticated ? 0x20U : 0) | reply.rcode);
  put16(out, 1);
  put16(out, static_cast<unsigned>(reply.answers.size()));
  put16(out, static_cast<unsigned>(reply.authority.size()));
  put16(out, 0);
  out += query.question;
  for (const auto* section : {&reply.answers, &reply.authority}) {
    for (const auto& r : *section) {
      out += wire_name(r.name);
      put16(out, r.type);
      put16(out, 1);
      put32(out, r.ttl);
      put16(out, static_cast<unsigned>(r.data.size()));
      out += r.data;
    }
  }
  return out;
}

}  // namespace pen::testing
