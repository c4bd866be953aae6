import os

from tokhelpers.notebooks import environment

os.environ.update(environment())  # the kernels that nbval starts read it
