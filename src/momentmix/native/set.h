/* All code for one instruction set, inside a region that is compiled for it. */
#include "lanes.h"
#include "sums.h"
#include "density.h"
#undef NAME
#undef V
#undef VECTORS
#undef WIDTH
#undef TILE_ROWS
#undef TILE_COLUMNS
#undef LOAD
#undef ZERO
#undef FMA
#undef HELD
