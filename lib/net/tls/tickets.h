#pragma once
/// The keys of session tickets: what lets a client resume a session at another process, or after a restart.
///
/// Use:     auto keys = std::make_shared<TicketKeys>(file, seconds(3600), clock);   // one per process, for all
///          contexts
/// Keys:    each is random, encrypts new tickets for one lifetime and opens old ones for one more; then it is
///          forgotten, on disk too, so that a stolen file opens no session older than two lifetimes.
/// File:    mode 0600, shared by all programs of an instance under a lock that is held for one short read and write.
///          Who needs a new key first makes it; the others find it there, at the latest when a client shows a
///          ticket by it. Without a file, or when it cannot be used, keys are this process's own.
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

  /// file: empty for keys of this process only. The clock must outlive the object.
  TicketKeys(std::string file, seconds lifetime, const Clock& clock);
  ~TicketKeys();
  TicketKeys(const TicketKeys&) = delete;
  TicketKeys& operator=(const TicketKeys&) = delete;

  /// The key for new tickets; made when there is none that is young enough.
  const Key& current();
  /// The key of a ticket; nullptr: unknown or too old, a full handshake follows.
  const Key* find(Bytes name);
  /// Whether the key is so old that a ticket by it should be replaced.
  bool ageing(const Key& key) const;
  /// Why the file is not used, when it should be and is not; empty: all is well.
  const std::string& problem() const { return problem_; }

 private:
  /// Takes in what others made, and makes a key when none is young enough and `make` says so.
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
