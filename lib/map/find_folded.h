#pragma once
/// Looking into an indexed file for a key in any case.
#include "lib/base/idn/fold.h"
#include "lib/base/text.h"
#include "lib/map/map.h"

namespace pen::map {

/// The value under the key as penmap writes it: folded. A file of older versions, or of postmap with smtputf8_enable =
/// no, has keys of which the ASCII letters alone are in lower case: these are found if they are written as the key is.
template <class File>
Value find_folded(const File& file, std::string_view key) {
  auto value = file.find(idn::fold(key));
  if (!value || *value || !idn::beyond_ascii(key)) return value;
  return file.find(to_lower(key));
}

}  // namespace pen::map
