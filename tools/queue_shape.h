#pragma once
/// The shape of the queue: how many messages wait for each domain, and for how long.
///
/// Use:     Shape shape({.ages = {5min, 10min, 20min}}, now);
///          shape.add(entry);                     // of a brief listing, once per message
///          print(shape.table());                 // or shape.json()
/// Counts:  a message counts once for each domain that it waits for (of the first 32: all that a listing has), or once
///          for its sender's domain; so the totals may be more than there are messages.
/// Memory:  one row per domain.
/// Source:  Postfix: qshape(1).
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/ipc/queue.h"

namespace pen::tools {

/// Upper ends of the columns: `first`, then the double each time, or one `first` more each time.
std::vector<minutes> shape_ages(minutes first, std::size_t columns, bool linear);

class Shape {
 public:
  struct Options {
    std::vector<minutes> ages;  // ascending; one more column takes what is older
    bool by_sender = false;
  };
  Shape(Options options, WallTime now);
  void add(const ipc::queue::Entry& entry);
  /// A header line, the totals, then a line per domain: those with most messages first.
  std::string table() const;
  /// One object a line, in the same order, without the totals.
  std::string json() const;

 private:
  struct Row {
    std::uint64_t total = 0;
    std::vector<std::uint64_t> by_age;
  };
  using Rows = std::map<std::string, Row, std::less<>>;
  void count(Row& row, std::size_t column) const;
  std::vector<Rows::const_iterator> sorted() const;

  Options options_;
  WallTime now_;
  Rows rows_;
  Row totals_;
};

}  // namespace pen::tools
