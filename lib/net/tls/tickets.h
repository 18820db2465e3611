#pragma once
/// The keys of session tickets: they let a client resume a session at another process, or after a restart.
///
/// Use:     auto keys = std::make_shared<TicketKeys>(file, seconds(3600), clock);   // for all contexts of a process
/// Keys:    each is random, encrypts new tickets for one lifetime and opens old ones for one more. Then it is deleted,
///          from disk too, so that a stolen file opens no session older than two lifetimes.
/// File:    mode 0600, shared by all programs of an instance under a lock that is held for one short read and write.
///          The first program that needs a new key makes it. The others find it in the file, at the latest when a
///          client shows a ticket made with it. Without a usable file each process has keys of its own.
/// Thread:  the loop's.
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/bytes.h"
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace pen::tls {

class TicketKeys {
 public:
  static constexpr std::size_t kName = 16, kSecret = 32;
  struct Key {
    std::array<unsigned char, kName> name{};
    std::array<unsigned char, kSecret> cipher{}, mac{};
    long long made = 0;  // Unix seconds
  };

  /// file: empty for keys of this process only. The clock must outlive this object.
  TicketKeys(std::string file, seconds lifetime, const Clock& clock);
  ~TicketKeys();
  TicketKeys(const TicketKeys&) = delete;
  TicketKeys& operator=(const TicketKeys&) = delete;

  /// The key for new tickets; makes one when no key is young enough.
  const Key& current();
  /// The key of a ticket; nullptr: unknown or too old, so that a full handshake follows.
  const Key* find(Bytes name);
  /// Whether the key is so old that its tickets should be replaced.
  bool ageing(const Key& key) const;
  /// Why the file cannot be used; empty: there is no problem.
  const std::string& problem() const { return problem_; }

 private:
  /// Reads keys that other processes made; makes one if none is young enough and `make` is true.
  void synchronise(bool make);
  void forget_old();
  bool young(const Key& key) const;
  Result<void> exchange_with_file(bool make);
  void add_new_key();

  std::string file_;
  long long lifetime_;
  const Clock& clock_;
  std::vector<Key> keys_;  // newest last
  SteadyTime looked_ = SteadyTime::min();
  std::string problem_;
};

}  // namespace pen::tls
